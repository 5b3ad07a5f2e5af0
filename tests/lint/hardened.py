# SPDX-License-Identifier: Apache-2.0
"""What an ELF file of x86-64 or another 64-bit machine shows of its hardening (docs/install.md). tests/lint/hardening reads the built programs,
tests/e2e/test_images.py those of images."""
import os
import re
import shlex
import struct
import subprocess
import tempfile

EXEC, WRITE = 1, 2                                    # p_flags
LOAD, DYNAMIC, INTERP = 1, 2, 3                       # p_type
PROPERTY, STACK, RELRO = 0x6474e553, 0x6474e551, 0x6474e552
RPATH, TEXTREL, BIND_NOW, RUNPATH, FLAGS, FLAGS_1 = 15, 22, 24, 29, 30, 0x6ffffffb  # d_tag
X86_64 = 62
ENDBR64 = b"\xf3\x0f\x1e\xfa"
PROBE = b"\x48\x83\x0c\x24\x00"  # orq $0,(%rsp): gcc's touch of each page of a large frame. clang's movq $0,(%rsp) is in other code, too
IBT_AND_SHSTK = 3


class Elf:
    """A little-endian ELF file of 64 bits."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no little-endian ELF file of 64 bits")
        self.type, self.machine = struct.unpack_from("<HH", self.data, 16)
        phoff, shoff = struct.unpack_from("<QQ", self.data, 32)
        phentsize, phnum, shentsize, shnum, self.shstrndx = struct.unpack_from("<HHHHH", self.data, 54)
        # type, flags, offset, vaddr, paddr, filesz, memsz, align
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, phoff + i * phentsize) for i in range(phnum)]
        # name, type, flags, addr, offset, size, link, info, align, entsize
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, shoff + i * shentsize) for i in range(shnum)]
        self.dynamic = {}
        for s in self.of_type(DYNAMIC):
            for tag, value in struct.iter_unpack("<QQ", self.data[s[2]:s[2] + s[5] // 16 * 16]):
                self.dynamic.setdefault(tag, value)

    def of_type(self, kind):
        return [s for s in self.segments if s[0] == kind]

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def named(self, name):
        """The sections of that name."""
        return [s for s in self.sections if self.text(self.sections[self.shstrndx][4] + s[0]) == name]

    def section(self, name):
        return b"".join(self.data[s[4]:s[4] + s[5]] for s in self.named(name))

    def symbols(self, name):
        """(name, section index, address) of the symbols of .symtab or .dynsym."""
        for s in self.named(name):
            for at in range(s[4], s[4] + s[5], 24):
                n, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                yield self.text(self.sections[s[6]][4] + n), section, value

    def code(self, address, n):
        """n bytes at that virtual address."""
        for s in self.of_type(LOAD):
            if s[3] <= address < s[3] + s[5]:
                return self.data[s[2] + address - s[3]:][:n]
        return b""

    def cet(self):
        """Bits of the note about control flow: 1 indirect branches, 2 the shadow stack."""
        for s in self.of_type(PROPERTY):
            note = self.data[s[2]:s[2] + s[5]]
            at = 16  # behind the sizes, the type and "GNU"
            while at + 12 <= len(note):
                kind, size, bits = struct.unpack_from("<III", note, at)
                if kind == 0xc0000002:
                    return bits & IBT_AND_SHSTK
                at += 8 + (size + 7) // 8 * 8
        return 0


def problems(path, want_cet_note=False):
    """What the program lacks, a sentence each."""
    e = Elf(path)
    flags, flags_1 = e.dynamic.get(FLAGS, 0), e.dynamic.get(FLAGS_1, 0)
    imports = {name for name, section, _ in e.symbols(".dynsym") if section == 0}
    stack, relro = e.of_type(STACK), e.of_type(RELRO)
    got = e.named(".got") + e.named(".got.plt")
    rules = [
        (e.type == 3 and flags_1 & 0x08000000 and e.of_type(INTERP), "is not position-independent (-fPIE -pie)"),
        (relro, "has no read-only relocations (-Wl,-z,relro)"),
        (BIND_NOW in e.dynamic or flags & 8 or flags_1 & 1, "binds symbols late (-Wl,-z,now)"),
        (not relro or all(relro[0][3] <= s[3] and s[3] + s[5] <= relro[0][3] + relro[0][6] for s in got),
         "has a global offset table that stays writable (-Wl,-z,relro,-z,now)"),
        (stack and not stack[0][1] & EXEC, "has an executable stack (-Wl,-z,noexecstack)"),
        (not any(s[1] & EXEC and s[1] & WRITE for s in e.of_type(LOAD)), "has a segment that is writable and executable"),
        (not {RPATH, RUNPATH} & e.dynamic.keys(), "has a path of libraries built in (RPATH or RUNPATH)"),
        (TEXTREL not in e.dynamic and not flags & 4, "has relocations in its code"),
        ("__stack_chk_fail" in imports, "has no stack protector (-fstack-protector-strong)"),
        (any(n.endswith("_chk") for n in imports), "calls no checked function of the C library (-D_FORTIFY_SOURCE)"),
    ]
    if e.machine == X86_64:
        main = [value for name, section, value in e.symbols(".symtab") if name == "main" and section]
        rules += [
            (main and e.code(main[0], 4) == ENDBR64, "has a main that does not begin with endbr64 (-fcf-protection)"),
            (e.cet() == IBT_AND_SHSTK or not want_cet_note, "has no note that says IBT and SHSTK: an object lacks it (-Wl,-z,cet-report=warning)"),
            (b"clang" in e.section(".comment") or any(e.data.find(PROBE, s[2], s[2] + s[5]) >= 0 for s in e.of_type(LOAD) if s[1] & EXEC),
             "has large frames without probes (-fstack-clash-protection)"),
        ]
    return [f"{path} {what}" for good, what in rules if not good]


def makefile(build):
    """Variables of a build's Makefile."""
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        return dict(re.findall(r"^(\w+) =[ \t]*(.*)", f.read().replace("\\\n", " "), re.M))


def why_not(build):
    """Why the programs of this build are not expected to be hardened, or None."""
    said = subprocess.run(["./config.status", "--config"], cwd=build, capture_output=True, text=True, check=True).stdout
    found = re.search(r"--disable-hardening|--enable-hardening=no|--enable-(sanitize|fuzz)(?!=no)", said)
    return f"configured with {found.group(0)}" if found else None


def takes(build, *flags):
    """A program that the build's compiler makes with these flags, as Elf; None if it refuses them."""
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/a.c", "w", encoding="utf-8") as f:
            f.write("int main(void) { return 0; }\n")
        done = subprocess.run([*shlex.split(makefile(build)["CC"]), "-Werror", *flags, "-o", d + "/a", d + "/a.c"], capture_output=True)
        return Elf(d + "/a") if done.returncode == 0 else None


def wants_cet_note(build):
    """Files of the compiler and the C library are linked into every program. If one of them has no note, a program has none (Debian 12)."""
    program = takes(build, "-fcf-protection=full")
    return program is not None and program.cet() == IBT_AND_SHSTK


def of_build(build, programs, where=None):
    """What these programs of a build, or their copies elsewhere, lack by the flags that it was configured with."""
    flags, want_cet_note, found = makefile(build), wants_cet_note(build), []
    for p in programs:
        found += problems(os.path.join(where or build, p), want_cet_note)
    unoptimized = (re.findall(r"(?<!\S)-O\S*", flags["CFLAGS"]) or ["-O0"])[-1] == "-O0"
    found = [f for f in found if not unoptimized or "_FORTIFY_SOURCE" not in f]
    # No ELF file shows this one.
    zero = "-ftrivial-auto-var-init=zero"
    if zero not in flags["PY_CFLAGS"].split() and takes(build, zero):
        found.append(f"local variables are not zeroed ({zero})")
    return found
