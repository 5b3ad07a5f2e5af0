/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers leave their name in .comment, Go in .go.buildinfo; a runtime is known by the name of its program. A file linked from
 * objects of several compilers names them all. The start-up code is always GCC's, so the rarer one counts (Rust, then Clang, then
 * GCC). */
#include "agent/image/exe_meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/map.h"
#include "base/vec.h"
#include "elf/elf_file.h"

#define EXES_MAX 2048
#define COMMENT_BYTES_MAX 65536
#define DYNAMIC_BYTES_MAX 65536
#define DYNSTR_BYTES_MAX ((uint64_t)8 << 20)

struct exe {
	uint64_t key;
	struct exe_meta meta;
};

struct exe_metas {
	struct map index;
	VEC(struct exe) v;
};

struct exe_metas *exe_metas_new(void)
{
	return NEW(struct exe_metas);
}

void exe_metas_free(struct exe_metas *x)
{
	if (!x)
		return;
	map_free(&x->index);
	vec_free(&x->v);
	free(x);
}

/* The first run of digits and dots in v, without a dot at its end. */
static struct view version_in(struct view v)
{
	size_t i = 0, n = 0;
	while (i < v.len && !(v.ptr[i] >= '0' && v.ptr[i] <= '9'))
		i++;
	while (i + n < v.len && ((v.ptr[i + n] >= '0' && v.ptr[i + n] <= '9') || v.ptr[i + n] == '.'))
		n++;
	while (n && v.ptr[i + n - 1] == '.')
		n--;
	return view_make(v.ptr + i, n);
}

static struct view after(struct view v, const char *what)
{
	const char *at = v.len ? memmem(v.ptr, v.len, what, strlen(what)) : NULL;
	if (!at)
		return VIEW("");
	at += strlen(what);
	return view_make(at, (size_t)(v.ptr + v.len - at));
}

static void set_compiler(struct exe_meta *m, const char *name, struct view version)
{
	snprintf(m->version, sizeof m->version, "%.*s", VIEW_ARG(version));
	snprintf(m->compiler, sizeof m->compiler, "%s%s%.*s", name, version.len ? " " : "", VIEW_ARG(version));
}

/* "GCC: (Debian 12.2.0-14) 12.2.0": the version is behind the brackets. */
static struct view gcc_version(struct view s)
{
	struct view v = after(s, "GCC: ");
	if (v.len && v.ptr[0] == '(') {
		struct view behind = after(v, ") ");
		if (behind.len)
			v = behind;
	}
	return version_in(v);
}

void exe_meta_of_comment(struct view comment, struct exe_meta *ret)
{
	int rank = 0;
	for (size_t i = 0; i < comment.len;) {
		struct view s = view_make(comment.ptr + i, strnlen(comment.ptr + i, comment.len - i));
		i += s.len + 1;
		if (view_contains(s, VIEW("rustc version "))) {
			set_compiler(ret, "Rust", version_in(after(s, "rustc version ")));
			snprintf(ret->language, sizeof ret->language, "rust");
			return;
		}
		if (rank < 2 && view_contains(s, VIEW("clang version "))) {
			set_compiler(ret, "Clang", version_in(after(s, "clang version ")));
			rank = 2;
		} else if (rank < 1 && view_starts(s, VIEW("GCC: "))) {
			set_compiler(ret, "GCC", gcc_version(s));
			rank = 1;
		}
	}
}

/* Program names of runtimes; a version follows the name, or is in the path behind `mark`. */
static const struct {
	const char *program, *language, *mark;
	bool exact, jit;
} runtimes[] = {
	{ "java", "java", "java-", true, true }, { "java", "java", "jdk-", true, true }, { "node", "node", "/v", true, true },
	{ "nodejs", "node", "node-v", true, true }, { "deno", "deno", "deno-", true, true }, { "bun", "bun", "bun-", true, true },
	{ "python", "python", "/python", false, false }, { "pypy", "pypy", "/pypy", false, true },
	{ "ruby", "ruby", "/ruby", false, false }, { "perl", "perl", "/perl", false, false }, { "php", "php", "/php", false, true },
	{ "dotnet", "dotnet", "dotnet-", true, true }, { "beam.smp", "erlang", "erts-", true, true },
	{ "luajit", "lua", "luajit-", false, true }, { "lua", "lua", "/lua", false, false },
};

/* The name, then nothing but a version: "python3.11", "php-fpm8.2". */
static bool program_is(struct view name, const char *program, bool exact)
{
	struct view p = view_of(program);
	if (!view_starts(name, p) || (exact && name.len != p.len))
		return false;
	struct view rest = view_make(name.ptr + p.len, name.len - p.len);
	if (view_starts(rest, VIEW("-fpm")) || view_starts(rest, VIEW("-cgi")))
		rest = view_make(rest.ptr + 4, rest.len - 4);
	for (size_t i = 0; i < rest.len; i++)
		if (!(rest.ptr[i] >= '0' && rest.ptr[i] <= '9') && rest.ptr[i] != '.' && rest.ptr[i] != '-')
			return false;
	return true;
}

bool exe_meta_of_path(struct view path, struct exe_meta *ret)
{
	const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
	struct view name = slash ? view_make(slash + 1, path.len - (size_t)(slash + 1 - path.ptr)) : path;
	bool found = false;
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		if (!program_is(name, runtimes[i].program, runtimes[i].exact))
			continue;
		struct view v = runtimes[i].exact ? VIEW("") : version_in(name);
		if (!v.len) {
			struct view behind = after(path, runtimes[i].mark);
			while (behind.len && !(behind.ptr[0] >= '0' && behind.ptr[0] <= '9'))
				behind = after(behind, runtimes[i].mark);
			v = version_in(behind);
		}
		if (found && !v.len)
			continue;
		found = true;
		snprintf(ret->language, sizeof ret->language, "%s", runtimes[i].language);
		snprintf(ret->version, sizeof ret->version, "%.*s", VIEW_ARG(v));
		ret->jit = runtimes[i].jit;
		if (v.len)
			break;
	}
	return found;
}

/* "\xff Go buildinf:", size of pointers, flags; with flag 2 (Go 1.18 and later) the version follows at 32 as a varint
 * length and text. (debug/buildinfo) */
bool exe_meta_of_go(struct view b, struct exe_meta *ret)
{
	snprintf(ret->language, sizeof ret->language, "go");
	snprintf(ret->compiler, sizeof ret->compiler, "Go");
	ret->version[0] = 0;
	if (b.len < 34 || memcmp(b.ptr, "\xff Go buildinf:", 14) != 0 || !(b.ptr[15] & 2))
		return false;
	size_t n = (uint8_t)b.ptr[32];
	struct view v = view_make(b.ptr + 33, n);
	if (n >= 128 || b.len - 33 < n || !view_starts(v, VIEW("go")))
		return false;
	set_compiler(ret, "Go", version_in(v));
	return ret->version[0] != 0;
}

/* Whether the C++ library is among what the dynamic linker is to load. */
static bool needs_cxx(const struct elf_file *f)
{
	const Elf64_Shdr *dyn = elf_section(f, ".dynamic"), *str = elf_section(f, ".dynstr");
	bool found = false;
	if (!dyn || !str)
		return false;
	uint8_t *d = elf_section_bytes(f, dyn, DYNAMIC_BYTES_MAX), *s = elf_section_bytes(f, str, DYNSTR_BYTES_MAX);
	for (size_t i = 0; d && s && !found && (i + 1) * sizeof(Elf64_Dyn) <= dyn->sh_size; i++) {
		Elf64_Dyn e;
		memcpy(&e, d + i * sizeof e, sizeof e);
		if (e.d_tag == DT_NULL)
			break;
		const char *name = e.d_tag == DT_NEEDED && e.d_un.d_val < str->sh_size ? (const char *)s + e.d_un.d_val : "";
		found = strncmp(name, "libstdc++.so", 12) == 0 || strncmp(name, "libc++.so", 9) == 0;
	}
	free(d);
	free(s);
	return found;
}

static void read_section(const struct elf_file *f, const char *name, void (*take)(struct view v, struct exe_meta *ret),
			 struct exe_meta *ret)
{
	const Elf64_Shdr *sh = elf_section(f, name);
	uint8_t *p = sh ? elf_section_bytes(f, sh, COMMENT_BYTES_MAX) : NULL;
	if (p)
		take(view_make((const char *)p, sh->sh_size), ret);
	free(p);
}

static void take_go(struct view v, struct exe_meta *ret)
{
	exe_meta_of_go(v, ret);
}

static void read_exe(struct image *im, struct exe_meta *ret)
{
	struct elf_file f;
	struct err e;
	int fd = image_dup_fd(im);
	if (fd < 0)
		return;
	if (elf_open(&f, fd, &e) == 0) {
		if (im->is_go) {
			exe_meta_of_go(VIEW(""), ret);
			read_section(&f, ".go.buildinfo", take_go, ret);
		} else {
			read_section(&f, ".comment", exe_meta_of_comment, ret);
		}
		if (!ret->language[0] && ret->compiler[0])
			snprintf(ret->language, sizeof ret->language, needs_cxx(&f) ? "c++" : "c");
		elf_close(&f);
	}
	close(fd);
	struct exe_meta by_path = { 0 };
	if (exe_meta_of_path(view_of(im->path ? im->path : ""), &by_path)) {
		memcpy(ret->language, by_path.language, sizeof ret->language);
		memcpy(ret->version, by_path.version, sizeof ret->version);
		ret->jit = by_path.jit;
	}
}

const struct exe_meta *exe_metas_get(struct exe_metas *x, struct image *im)
{
	uint64_t key = hash_u64(im->key ^ im->content.h[0]) ^ hash_view(view_of(im->path ? im->path : ""));
	uint32_t id;
	for (size_t at = map_start(&x->index, key); map_probe(&x->index, key, &at, &id);)
		if (x->v.v[id].key == key)
			return &x->v.v[id].meta;
	if (x->v.n >= EXES_MAX) {
		x->v.n = 0;
		map_clear(&x->index);
	}
	struct exe *exe = vec_add(&x->v);
	exe->key = key;
	read_exe(im, &exe->meta);
	map_insert(&x->index, key, (uint32_t)x->v.n - 1);
	return &exe->meta;
}
