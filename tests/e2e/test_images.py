# SPDX-License-Identifier: Apache-2.0
"""deploy/image.sh: what is in the images of server and agent, and what is not. Needs root and buildah; no daemon, no registry."""
import json
import os
import re
import shutil
import stat
import subprocess
import sys

from harness import LONG, TOP, check, run, slow
from oci import image as made_image, make_image, need_programs

sys.path.insert(0, os.path.join(TOP, "tests", "lint"))
import hardened  # noqa: E402

MB = 1 << 20


def check_files(image, programs, writable):
    """The programs with all that they load and nothing that could be used against them: no shell, no file with a mode that lends rights."""
    members = image.members()
    files = {name: m for name, m in members.items() if m.isreg()}
    check({n for n in files if "/bin/" in n or "/sbin/" in n} == {"usr/bin/" + p for p in programs}, f"{[n for n in files if 'bin/' in n]}")
    bad = [n for n, m in members.items() if m.mode & (stat.S_ISUID | stat.S_ISGID)]
    check(not bad, f"set-user-id: {bad}")
    others = {n: m.uid for n, m in members.items() if m.uid or m.gid}
    check(others == writable, f"not root's: {others}")
    bad = [n for n, m in members.items() if m.mode & 0o022 and not m.issym() and n != "tmp"]
    check(not bad, f"others may write: {bad}")
    check(image.size < 60 * MB and sum(m.size for m in files.values()) < 60 * MB, f"{image.size}, {sum(m.size for m in files.values())}")
    bad = {n: m.mtime for n, m in members.items() if m.mtime > 1700000000}
    check(not bad, f"newer than SOURCE_DATE_EPOCH: {bad}")


def check_sbom(env, image, root, programs):
    """Each file that came with a package is named by the SBOM with this machine's version of it; each package named has files there."""
    with open(image.sbom) as f:
        sbom = json.load(f)
    inside = os.path.join(root, "usr/share/doc", image.tag.split("/")[1].split(":")[0], "sbom.spdx.json")
    with open(inside) as f:
        check(json.load(f) == sbom, "the SBOM inside is another")
    check(sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0", f"{sbom['spdxVersion']}")
    ids = [p["SPDXID"] for p in sbom["packages"]]
    check(len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids), f"{ids}")
    related = {r["relatedSpdxElement"] for r in sbom["relationships"]}
    check(related == set(ids), f"{related ^ set(ids)}")
    debian = {p["name"]: p["versionInfo"] for p in sbom["packages"] if p["SPDXID"].startswith("SPDXRef-deb-")}
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *debian], capture_output=True, text=True, check=True).stdout
    check(dict(line.split() for line in said.splitlines()) == debian, "versions")
    for package in debian:
        check(os.path.exists(os.path.join(root, "usr/share/doc", package, "copyright")), f"no licence of {package}")
        check(os.path.exists(os.path.join(root, "var/lib/dpkg/status.d", package)), f"{package}: nothing for scanners")
    wanted = set()
    for program in programs:
        said = subprocess.run(["ldd", env.program(program)], capture_output=True, text=True, check=True).stdout
        wanted |= {m.group(1) for m in re.finditer(r"^\s+(\S+\.so\S*)", said, re.M)} - {"linux-vdso.so.1"}
    wanted = {os.path.basename(w) for w in wanted}
    have = {n for where, _, names in os.walk(os.path.join(root, "usr")) for n in names if ".so" in n}
    check(wanted <= have, f"missing: {wanted - have}")
    # The files themselves, which packages name with or without the link /lib to /usr/lib.
    files = {os.path.realpath(os.path.join(where, n)).removeprefix("/usr") for where in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64") for n in have
             if os.path.exists(os.path.join(where, n))}
    check(len(files) > 20, f"{files}")
    said = subprocess.run(["dpkg", "-S", *files, *("/usr" + f for f in files)], capture_output=True, text=True).stdout
    owners = dict(reversed(line.split(": ")) for line in said.splitlines())
    for f in files:
        owner = owners.get(f, owners.get("/usr" + f, "")).split(":")[0]
        check(owner in debian, f"{f} is of the package '{owner}', which the SBOM lacks")


def check_names(root, programs):
    """Functions keep their names, for the profiles that the programs take of themselves; debug information is left out."""
    for program in programs:
        said = subprocess.run(["readelf", "-SW", os.path.join(root, "usr/bin", program)], capture_output=True, text=True, check=True).stdout
        check(" .symtab " in said and " .debug_info " not in said, f"{program}: {said}")


def check_hardened(env, root, programs):
    """What is in the image has what the build's flags bring, as tests/lint/hardening checks it of the build."""
    if not hardened.why_not(env.build):
        bad = hardened.of_build(env.build, programs, os.path.join(root, "usr/bin"))
        check(not bad, "\n".join(bad))


def check_labels(image, title, version):
    labels = image.config["config"]["Labels"]
    want = {"title": title, "version": version, "licenses": "Apache-2.0"}
    check(all(labels.get("org.opencontainers.image." + k) == v for k, v in want.items()), f"{labels}")
    check(labels.get("org.opencontainers.image.description"), f"{labels}")
    check(image.config["created"] == "2023-11-14T22:13:20Z", image.config["created"])


def version_of(env):
    return run([env.program("pyrrha"), "--version"])[1].split()[1]


@slow
def test_server(env):
    image = made_image(env, "server")
    check(image.tag == "localhost/pyrrha:" + version_of(env), image.tag)
    check_labels(image, "Pyrrha", version_of(env))
    check(image.config["config"]["User"] == "65532:65532", f"{image.config['config']}")
    check_files(image, ["pyrrha", "pyrtool"], {"var/lib/pyrrha": 65532, "etc/pyrrha-web": 65532})
    root = image.unpack(env, "root")
    check_sbom(env, image, root, ["pyrrha", "pyrtool"])
    check_names(root, ["pyrrha", "pyrtool"])
    check_hardened(env, root, ["pyrrha", "pyrtool"])
    with open(image.sbom) as f:
        page = {p["name"] for p in json.load(f)["packages"] if p["SPDXID"].startswith("SPDXRef-npm-")}
    with open(os.path.join(TOP, "web", "ui", "package.json")) as f:
        check(page >= set(json.load(f)["dependencies"]), f"libraries of the page: {page}")
    code, said = run(["chroot", root, "/usr/bin/pyrrha", "--version"])
    check(code == 0 and version_of(env) in said, said)
    if LONG:
        again = make_image(env, "server", env.path("again"))
        check(again.digest == image.digest, "the same programs made another image")


@slow
def test_agent(env):
    image = made_image(env, "agent")
    check(image.tag == "localhost/pyrrha-agent:" + version_of(env), image.tag)
    check_labels(image, "Pyrrha agent", version_of(env))
    check(image.config["config"]["User"] == "0:0", f"{image.config['config']}")
    check_files(image, ["pyrrha-agent"], {})
    root = image.unpack(env, "root")
    check_sbom(env, image, root, ["pyrrha-agent"])
    check_names(root, ["pyrrha-agent"])
    check_hardened(env, root, ["pyrrha-agent"])
    # What it loads by name when it is asked to, with all that this needs.
    with open(os.path.join(TOP, "agent", "names", "debuginfod.c")) as f:
        wanted = re.findall(r'#define LIBRARY "(\S+)"', f.read())
    check(wanted, "a library that is loaded at run time")
    loader = os.path.join("/lib64", os.listdir(os.path.join(root, "usr/lib64"))[0])
    for library in wanted:
        code, said = run(["chroot", root, loader, "--list", "/usr/lib/x86_64-linux-gnu/" + library])
        check(code == 0 and "not found" not in said, f"{library}: {said}")


@slow
def test_the_build_directory_stays_as_it_is(env):
    """--build takes programs from a directory, which may be somebody else's."""
    need_programs(env)
    env.echoserver()
    build = env.path("build")
    os.makedirs(build)
    os.symlink(env.program("pyrrha-agent"), os.path.join(build, "pyrrha-agent"))
    def listing():
        return [(where, sorted(folders + names), os.stat(where).st_mtime_ns) for where, folders, names in os.walk(build)]
    before = listing()
    for kind, program in (("agent", "pyrrha-agent"), ("demo", "echoserver")):
        root = env.path("root-" + kind)
        env.at_end(lambda root=root: shutil.rmtree(root, True))
        code, said = run([os.path.join(TOP, "deploy", "image.sh"), "--build", build, "--root", root, kind], 300, env=dict(os.environ, TMPDIR=env.dir))
        check(code == 0 and os.path.exists(os.path.join(root, "usr", "bin", program)), f"{kind}: {code}, {said}")
        check(listing() == before, f"{kind}: {listing()}")


def test_containerfiles(env):
    """What stands there twice is the same: the version, and the capabilities of the agent's units and command lines."""
    with open(os.path.join(TOP, "configure.ac")) as f:
        version = re.search(r"AC_INIT\(\[pyrrha\], \[(.*?)\]\)", f.read()).group(1)
    for kind in ("server", "agent", "demo"):
        with open(os.path.join(TOP, "deploy", "Containerfile." + kind)) as f:
            text = f.read()
        check(f"\nARG VERSION={version}\n" in text and f":{version} ." in text, f"Containerfile.{kind} is of another version")
    with open(os.path.join(TOP, "agent", "kernel", "caps.c")) as f:
        table = re.search(r"\} table\[\] = \{(.*?)\n\};", f.read(), re.S).group(1)
    asked = {m.group(1) for m in re.finditer(r"\{ CAP_(\w+), \"", table)} - {"SYS_ADMIN"}
    for name, pattern in (("Containerfile.agent", r"--cap-add=([\w,]+)"), ("pyrrha-agent.service", r"AmbientCapabilities=(.*)"),
                          ("pyrrha-agent.service", r"CapabilityBoundingSet=(.*)"), ("kubernetes/agent.yml", r"^ +add: \[(.*)\]")):
        with open(os.path.join(TOP, "deploy", name)) as f:
            found = re.findall(pattern, f.read(), re.M)
        check(found and all(set(c.strip().removeprefix("CAP_") for c in re.split(r"[ ,]+", f)) == asked for f in found), f"{name}: {found}, not {asked}")
