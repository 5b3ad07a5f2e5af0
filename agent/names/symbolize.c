/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer. An image that is about to be sampled leaves a descriptor here. Its symbols are read by a separate thread once it is
 * sampled and a profile is requested (most images of a host never are). Then the descriptor is closed, except for Go programs, whose
 * table is read piecewise. A request for a profile waits for that until patience_ms after the image was first needed, and then
 * continues without. Resolved names are kept per image and address, so a profile every ten seconds costs one hash look-up a frame.
 *
 * One lock: profiles are built a few times a minute. The drain thread takes it only to leave a descriptor, and leaves none if a reader
 * holds the lock (trylock): the reader opens the file itself by image_dup_fd. */
#include "agent/names/symbolize.h"

#include <elf.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/go/gopclntab.h"
#include "agent/names/debug_reader.h"
#include "agent/names/debuginfod.h"
#include "agent/names/kallsyms.h"
#include "agent/names/name_cache.h"
#include "agent/names/perfmap_helper.h"
#include "agent/names/perfmaps.h"
#include "agent/names/symbol_reader.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "elf/elf_file.h"
#include "symbols/demangle.h"
#include "symbols/symtab.h"

/* Descriptors kept for images whose symbols were not requested yet. */
#define WAITING_FDS_MAX 512
#define VDSO_MAX ((size_t)1 << 20)
#define KALLSYMS_RELOAD_MS 60000
/* Memory limit of names and their strings, while they are unused. */
#define NAMES_BYTES_MAX ((size_t)10 << 20)
/* Beyond these there are no more names: strings while profiles are being built, and tables of symbols in files. */
#define STRINGS_BYTES_MAX ((size_t)48 << 20)
#define TABLES_BYTES_MAX ((uint64_t)512 << 20)
#define SWEEP_MS 30000

struct known_image {
	struct image *image;     /* reference held */
	uint64_t serial;         /* never given twice, from 1 on */
	int fd;                  /* -1: was read, or could not be had */
	bool asked, ready, is_go;
	unsigned readers;        /* that are using it: it must not be freed */
	int64_t asked_mono_ms;   /* when its names were first wanted */
	struct dwarf_index dwarf;
	struct symtab symbols;
	struct gopclntab go;
};

struct symbolizer {
	struct mutex lock;
	struct map image_index;
	VEC(struct known_image *) images; /* NULL = free slot */
	VEC(uint32_t) spare;
	uint64_t serials;
	int64_t swept_mono_ms;
	unsigned readers;        /* between symbolizer_begin and _end */
	struct name_cache names;
	struct perfmaps *perfmaps;
	int64_t patience_ms;
	pthread_cond_t ready;    /* some image is */
	struct symbol_reader *symbols;
	struct debug_reader *debug;
	struct kallsyms kernel;
	int64_t kernel_loaded_mono_ms;
	bool kernel_tried;
	unsigned waiting_fds;
	uint64_t forgotten, over_budget;
};

/* New data about an image, from the reader's thread. Images are not freed while they are with it. */
static void take_debug(void *arg, void *token, const struct debug_found *found)
{
	struct symbolizer *s = arg;
	struct known_image *k = token;
	mutex_lock(&s->lock);
	if (found->has_symbols) {
		symtab_free(&k->symbols);
		k->symbols = found->symbols;
	}
	if (found->has_dwarf)
		k->dwarf = found->dwarf;
	if (found->has_symbols || found->has_dwarf)
		name_cache_forget(&s->names);
	k->readers--;
	mutex_unlock(&s->lock);
}

static uint64_t symbol_bytes(const struct symbolizer *s) REQUIRES(s->lock)
{
	uint64_t n = 0;
	for (size_t i = 0; i < s->images.n; i++)
		n += s->images.v[i] ? symtab_bytes(&s->images.v[i]->symbols) : 0;
	return n;
}

/* An image's symbols, from their thread; asks for its lines. */
static void take_symbols(void *arg, void *token, struct symbols_found *found)
{
	struct symbolizer *s = arg;
	struct known_image *k = token;
	bool lines = !found->is_go && found->fd >= 0;
	struct dwarf_index kept = { .fd = -1 };
	bool have = lines && debug_reader_kept(s->debug, k->image, found->fd, &kept);
	mutex_lock(&s->lock);
	if (have)
		k->dwarf = kept;
	if (symbol_bytes(s) < TABLES_BYTES_MAX) {
		k->symbols = found->symbols;
	} else {
		symtab_free(&found->symbols);
		s->over_budget++;
	}
	k->is_go = found->is_go;
	k->go = found->go;
	k->fd = found->is_go ? found->fd : -1;
	k->ready = true;
	pthread_cond_broadcast(&s->ready);
	mutex_unlock(&s->lock);
	if (lines && !have && debug_reader_ask(s->debug, k->image, found->fd, k))
		return;
	mutex_lock(&s->lock);
	k->readers--;
	mutex_unlock(&s->lock);
	if (lines)
		close(found->fd);
}

/* fresh: the symbols of /proc/kallsyms, taken over; NULL if they could not be read. */
static void take_kernel(struct symbolizer *s, const struct kallsyms *fresh) REQUIRES(s->lock)
{
	s->kernel_tried = true;
	s->kernel_loaded_mono_ms = clock_mono_ms();
	if (fresh) {
		kallsyms_free(&s->kernel);
		s->kernel = *fresh;
	}
}

static void load_kernel(struct symbolizer *s) REQUIRES(s->lock)
{
	struct err e;
	struct kallsyms fresh;
	take_kernel(s, kallsyms_load(&fresh, NULL, &e) == 0 ? &fresh : NULL);
}

/* Reads the kernel's symbols when the thread that reads symbols begins. It takes a tenth of a second of CPU: the first profile shall not wait for it. */
static void load_kernel_early(void *arg)
{
	struct symbolizer *s = arg;
	struct err e;
	struct kallsyms fresh;
	bool ok = kallsyms_load(&fresh, NULL, &e) == 0;
	mutex_lock(&s->lock);
	if (!s->kernel_tried)
		take_kernel(s, ok ? &fresh : NULL);
	else if (ok) /* a profile was asked for meanwhile, and read them */
		kallsyms_free(&fresh);
	mutex_unlock(&s->lock);
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *o, struct err *e)
{
	struct symbolizer *s = NEW(struct symbolizer);
	mutex_init(&s->lock, RANK_SYMBOLIZER, "symbolizer");
	pthread_cond_init(&s->ready, NULL);
	s->patience_ms = o->patience_ms;
	name_cache_init(&s->names);
	s->kernel.tab.fd = -1;
	s->perfmaps = perfmaps_new();
	s->debug = debug_reader_new(o->cache_dir, o->debuginfod_urls, o->helper_share, take_debug, s, e);
	s->symbols = s->debug ? symbol_reader_new(load_kernel_early, take_symbols, s, e) : NULL;
	if (s->symbols)
		return s;
	symbolizer_free(s);
	return NULL;
}

static void free_image(struct known_image *k)
{
	symtab_free(&k->symbols);
	dwarf_index_close(&k->dwarf);
	if (k->is_go)
		gopclntab_close(&k->go);
	if (k->fd >= 0)
		close(k->fd);
	image_unref(k->image);
	free(k);
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	symbol_reader_free(s->symbols);
	debug_reader_free(s->debug);
	for (size_t i = 0; i < s->images.n; i++)
		if (s->images.v[i])
			free_image(s->images.v[i]);
	vec_free(&s->images);
	vec_free(&s->spare);
	map_free(&s->image_index);
	name_cache_release(&s->names);
	kallsyms_free(&s->kernel);
	perfmaps_free(s->perfmaps);
	pthread_cond_destroy(&s->ready);
	mutex_destroy(&s->lock);
	free(s);
}

static size_t map_bytes(const struct map *m)
{
	return m->slots ? (m->mask + 1) * sizeof *m->slots : 0;
}

static struct view intern(struct symbolizer *s, struct view v) REQUIRES(s->lock)
{
	return name_cache_intern(&s->names, v);
}

/* ---- images ---- */

static struct known_image *find_image(struct symbolizer *s, struct image *im) REQUIRES(s->lock)
{
	uint64_t h = hash_u64((uintptr_t)im);
	uint32_t id;
	for (size_t at = map_start(&s->image_index, h); map_probe(&s->image_index, h, &at, &id);)
		if (s->images.v[id] && s->images.v[id]->image == im)
			return s->images.v[id];
	return NULL;
}

static struct known_image *add_image(struct symbolizer *s, struct image *im) REQUIRES(s->lock)
{
	struct known_image *k = NEW(struct known_image);
	k->image = image_ref(im);
	k->symbols.fd = k->dwarf.fd = -1;
	k->fd = image_dup_fd(im);
	if (k->fd >= 0)
		s->waiting_fds++;
	k->serial = ++s->serials;
	uint32_t slot = s->spare.n ? s->spare.v[--s->spare.n] : (uint32_t)s->images.n;
	if (slot == s->images.n)
		vec_push(&s->images, NULL);
	s->images.v[slot] = k;
	map_insert(&s->image_index, hash_u64((uintptr_t)im), slot);
	return k;
}

/* Images that neither a process nor the history has any more: programs come and go. */
static void drop_dead_images(struct symbolizer *s) REQUIRES(s->lock)
{
	int64_t now = clock_mono_ms();
	if (s->swept_mono_ms && now - s->swept_mono_ms < SWEEP_MS)
		return;
	s->swept_mono_ms = now;
	for (size_t i = 0; i < s->images.n; i++) {
		struct known_image *k = s->images.v[i];
		/* Any other holder could pass its reference on, but none does. */
		if (!k || k->readers || atomic_load(&k->image->refs) != 1)
			continue;
		map_remove(&s->image_index, hash_u64((uintptr_t)k->image), (uint32_t)i);
		s->waiting_fds -= !k->asked && k->fd >= 0;
		free_image(k);
		s->images.v[i] = NULL;
		vec_push(&s->spare, (uint32_t)i);
	}
}

void symbolizer_image(struct symbolizer *s, struct image *im)
{
	if (!mutex_try(&s->lock))
		return;
	if (s->waiting_fds >= WAITING_FDS_MAX)
		drop_dead_images(s);
	if (s->waiting_fds < WAITING_FDS_MAX && !find_image(s, im))
		add_image(s, im);
	mutex_unlock(&s->lock);
}

/* The vDSO is no file: a copy of ours, which is every process's (of this word size), in one. */
static int vdso_file(void)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	size_t n = h ? h->e_shoff + (size_t)h->e_shnum * h->e_shentsize : 0;
	int fd = n && n < VDSO_MAX ? memfd_create("pyrrha-vdso", MFD_CLOEXEC) : -1;
	if (fd >= 0 && write(fd, h, n) != (ssize_t)n) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void ask_symbols(struct symbolizer *s, struct known_image *k) REQUIRES(s->lock)
{
	if (k->asked)
		return;
	int fd = k->fd;
	if (fd >= 0)
		s->waiting_fds--;
	else
		fd = strcmp(k->image->path, "[vdso]") == 0 ? vdso_file() : image_dup_fd(k->image);
	k->asked = true;
	k->asked_mono_ms = clock_mono_ms();
	k->fd = -1;
	k->readers++;
	symbol_reader_ask(s->symbols, k->image, fd, k);
}

static struct known_image *find_or_add(struct symbolizer *s, struct image *im) REQUIRES(s->lock)
{
	struct known_image *k = find_image(s, im);
	return k ? k : add_image(s, im);
}

bool symbolizer_want(struct symbolizer *s, struct image *im)
{
	if (!mutex_try(&s->lock))
		return false;
	ask_symbols(s, find_or_add(s, im));
	mutex_unlock(&s->lock);
	return true;
}

void symbolizer_want_all(struct symbolizer *s, const struct profile_window *w)
{
	mutex_lock(&s->lock);
	for (size_t i = 0; i < w->frames.n; i++)
		if (w->frames.v[i].kind == FRAME_USER && w->frames.v[i].image)
			ask_symbols(s, find_or_add(s, w->frames.v[i].image));
	mutex_unlock(&s->lock);
}

/* Whether its symbols are there. Lets go of the lock; the caller holds a reference to the image. */
static bool await_symbols(struct symbolizer *s, struct known_image *k) REQUIRES(s->lock)
{
	ask_symbols(s, k);
	int64_t until = k->asked_mono_ms + s->patience_ms;
	while (!k->ready && mutex_wait_ms(&s->lock, &s->ready, until))
		;
	return k->ready;
}

/* ---- resolving ---- */

static void set_names(struct symbolizer *s, struct sym_frame *f, struct view name) REQUIRES(s->lock)
{
	struct buf plain = { 0 };
	f->system_name = intern(s, name);
	f->name = demangle(name, &plain) ? intern(s, buf_view(&plain)) : f->system_name;
	buf_free(&plain);
}

static size_t resolve_go(struct symbolizer *s, struct known_image *k, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	struct gopclntab_frame f[SYM_FRAMES_MAX];
	struct buf text = { 0 };
	size_t n = gopclntab_lookup(&k->go, addr, &text, f, SYM_FRAMES_MAX);
	for (size_t i = 0; i < n; i++) {
		struct view name = view_of(text.ptr + f[i].name);
		out[i].name = out[i].system_name = intern(s, name);
		out[i].file = intern(s, view_of(text.ptr + f[i].file));
		out[i].line = f[i].line;
		out[i].start_line = f[i].start_line;
	}
	buf_free(&text);
	return n;
}

static size_t resolve_symbol(struct symbolizer *s, const struct symtab *t, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	struct buf name = { 0 };
	uint64_t start;
	size_t n = symtab_lookup(t, addr, &name, &start) && name.len ? 1 : 0;
	if (n)
		set_names(s, out, buf_view(&name));
	buf_free(&name);
	return n;
}

/* What a signal handler returns to was not called: the byte before it, where a call would have been, is nobody's. */
static size_t resolve_trampoline(struct symbolizer *s, const struct symtab *t, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	struct buf name = { 0 };
	uint64_t start;
	size_t n = symtab_lookup(t, addr + 1, &name, &start) && name.len && start == addr + 1 ? 1 : 0;
	if (n)
		set_names(s, out, buf_view(&name));
	buf_free(&name);
	return n;
}

/* The interpreter's cold part has no symbol in a file that is stripped. */
static size_t resolve_cold_part(struct symbolizer *s, const struct known_image *k, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	const struct runtime_file *f = k->image->runtime;

	for (unsigned i = 1; f && f->one_function && i < f->n_interpreter; i++)
		if (addr >= f->interpreter[i].start && addr < f->interpreter[i].end)
			return resolve_symbol(s, &k->symbols, f->interpreter[0].start, out);
	return 0;
}

/* Puts the inlined calls before the function's own frame, which is out[0] so far, and lines on all of them. */
static size_t add_lines(struct symbolizer *s, struct known_image *k, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	struct dwarf_frame f[SYM_FRAMES_MAX];
	struct buf text = { 0 };
	size_t n = k->is_go ? 0 : dwarf_index_lookup(&k->dwarf, addr, &text, f, SYM_FRAMES_MAX);
	if (n > 1)
		out[n - 1] = out[0];
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n)
			set_names(s, &out[i], view_of(text.ptr + f[i].name));
		out[i].file = intern(s, view_of(text.ptr + f[i].file));
		out[i].line = f[i].line;
		out[i].start_line = f[i].start_line;
	}
	buf_free(&text);
	return n ? n : 1;
}

static size_t resolve_user(struct symbolizer *s, struct known_image *k, uint64_t addr, struct sym_frame *out) REQUIRES(s->lock)
{
	if (!k || !await_symbols(s, k))
		return 0;
	size_t n = k->is_go ? resolve_go(s, k, addr, out) : 0;
	if (n)
		return n;
	if (resolve_symbol(s, &k->symbols, addr, out))
		return add_lines(s, k, addr, out);
	n = resolve_trampoline(s, &k->symbols, addr, out);
	return n ? n : resolve_cold_part(s, k, addr, out);
}

static size_t resolve_kernel(struct symbolizer *s, const struct window_frame *f, struct sym_frame *out) REQUIRES(s->lock)
{
	if (!s->kernel_tried)
		load_kernel(s);
	size_t n = resolve_symbol(s, &s->kernel.tab, f->addr, out);
	if (!n && clock_mono_ms() - s->kernel_loaded_mono_ms > KALLSYMS_RELOAD_MS) { /* a module came */
		load_kernel(s);
		n = resolve_symbol(s, &s->kernel.tab, f->addr, out);
	}
	return n;
}

static size_t resolve_jit(struct symbolizer *s, const struct window_frame *f, struct sym_frame *out) REQUIRES(s->lock)
{
	struct buf name = { 0 };
	size_t n = f->process && perfmaps_lookup(s->perfmaps, f->process, f->addr, &name) && name.len ? 1 : 0;
	if (n)
		set_names(s, out, buf_view(&name));
	buf_free(&name);
	return n;
}

static size_t resolve_locked(struct symbolizer *s, const struct window_frame *f, struct sym_frame *out) REQUIRES(s->lock)
{
	struct known_image *k = NULL;
	if (f->kind == FRAME_USER && f->image)
		k = find_or_add(s, f->image);
	uint64_t owner = k ? k->serial : 0;
	size_t n;
	/* Code that a JIT placed at an address may be other code a minute later: not cached. */
	bool keeps = f->kind == FRAME_KERNEL || k;
	if (keeps && name_cache_find(&s->names, owner, f->addr, out, &n))
		return n;
	if (name_cache_strings_bytes(&s->names) > STRINGS_BYTES_MAX) {
		s->over_budget++;
		return 0;
	}
	for (size_t i = 0; i < SYM_FRAMES_MAX; i++)
		out[i] = (struct sym_frame){ VIEW(""), VIEW(""), VIEW(""), 0, 0 };
	n = f->kind == FRAME_USER ? resolve_user(s, k, f->addr, out) :
	    f->kind == FRAME_KERNEL ? resolve_kernel(s, f, out) : resolve_jit(s, f, out);
	if (keeps && (!k || k->ready))
		name_cache_put(&s->names, owner, f->addr, out, n);
	return n;
}

/* The window holds the record that the strings are in. */
static size_t resolve_runtime(const struct window_frame *f, struct sym_frame *out)
{
	struct runtime_name names[SYM_FRAMES_MAX];
	size_t n = f->code ? runtime_code_frames(f->code, f->addr, names, SYM_FRAMES_MAX) : 0;

	for (size_t i = 0; i < n; i++)
		out[i] = (struct sym_frame){ names[i].name, names[i].system_name, names[i].file, names[i].line, names[i].start_line };
	return n;
}

size_t symbolizer_resolve(struct symbolizer *s, const struct window_frame *f, struct sym_frame out[SYM_FRAMES_MAX])
{
	if (f->kind == FRAME_MARK)
		return 0;
	if (f->kind == FRAME_RUNTIME)
		return resolve_runtime(f, out);
	mutex_lock(&s->lock);
	size_t n = resolve_locked(s, f, out);
	mutex_unlock(&s->lock);
	return n;
}

/* Whether the kernel has a function at this address as it leaves the agent: an offset from _stext. */
static bool in_kernel(struct symbolizer *s, uint64_t address, struct window_frame *f) REQUIRES(s->lock)
{
	struct sym_frame out[SYM_FRAMES_MAX];
	if (!s->kernel_tried)
		load_kernel(s);
	*f = (struct window_frame){ .kind = FRAME_KERNEL, .addr = s->kernel.stext + address };
	return s->kernel.stext && f->addr > s->kernel.stext && resolve_locked(s, f, out) > 0;
}

size_t symbolizer_resolve_alone(struct symbolizer *s, uint64_t address, struct sym_frame out[SYM_FRAMES_MAX])
{
	struct window_frame f;
	uint64_t start, limit, offset;
	mutex_lock(&s->lock);
	unsigned holders = in_kernel(s, address, &f);
	for (size_t i = 0; i < s->images.n && holders < 2; i++) {
		struct image *im = s->images.v[i] ? s->images.v[i]->image : NULL;
		if (!im || !image_segment_at(im, address, &start, &limit, &offset))
			continue;
		f = (struct window_frame){ .kind = FRAME_USER, .addr = address, .image = im };
		holders++;
	}
	struct image *im = holders == 1 && f.image ? image_ref(f.image) : NULL;
	size_t n = holders == 1 ? resolve_locked(s, &f, out) : 0;
	image_unref(im);
	mutex_unlock(&s->lock);
	return n;
}

void symbolizer_begin(struct symbolizer *s)
{
	mutex_lock(&s->lock);
	s->readers++;
	mutex_unlock(&s->lock);
}

void symbolizer_end(struct symbolizer *s)
{
	mutex_lock(&s->lock);
	if (--s->readers == 0 && name_cache_strings_bytes(&s->names) + name_cache_resolved_bytes(&s->names) > NAMES_BYTES_MAX) {
		name_cache_clear(&s->names); /* names are read again when they are asked for again */
		s->forgotten++;
	}
	drop_dead_images(s);
	mutex_unlock(&s->lock);
}

uint64_t symbolizer_kernel_start(struct symbolizer *s)
{
	mutex_lock(&s->lock);
	if (!s->kernel_tried)
		load_kernel(s);
	uint64_t start = s->kernel.stext;
	mutex_unlock(&s->lock);
	return start;
}

int symbolizer_open_executable(struct symbolizer *s, struct view build_id)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct image *found = NULL;
	unsigned n = 0;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->images.n; i++) {
		struct image *im = s->images.v[i] ? s->images.v[i]->image : NULL;
		if (!im || !im->build_id_len || im->state != IMAGE_ELF || !view_eqs(build_id, image_build_id_hex(im, hex)))
			continue;
		found = im;
		n++;
	}
	/* If two files claim it, one of them is forged. */
	int fd = n == 1 && found->world_readable ? image_dup_fd(found) : -1;
	mutex_unlock(&s->lock);
	return fd;
}

static size_t open_files_of(const struct known_image *k)
{
	return (size_t)(k->fd >= 0) + (k->symbols.fd >= 0) + (k->dwarf.fd >= 0);
}

bool symbolizer_can_ask_servers(void)
{
	return debuginfod_client_here();
}

uint64_t symbolizer_helper_ns(struct symbolizer *s)
{
	return debug_reader_stats(s->debug).helper_ns;
}

void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret)
{
	mutex_lock(&s->lock);
	*ret = (struct symbolizer_stats){ .images = s->images.n - s->spare.n, .forgotten = s->forgotten,
					  .over_budget = s->over_budget, .tables_bytes = symbol_bytes(s) };
	struct debug_reader_stats debug = debug_reader_stats(s->debug);
	ret->debuginfod_found = debug.found;
	ret->debuginfod_absent = debug.absent;
	ret->debuginfod_failed = debug.failed;
	memcpy(ret->debug_reads, debug.reads, sizeof ret->debug_reads);
	ret->strings_bytes = name_cache_strings_bytes(&s->names);
	ret->resolved_bytes = name_cache_resolved_bytes(&s->names);
	ret->images_bytes = s->images.cap * sizeof *s->images.v + map_bytes(&s->image_index);
	for (size_t i = 0; i < s->images.n; i++) {
		if (!s->images.v[i])
			continue;
		ret->images_bytes += sizeof *s->images.v[i] + symtab_memory(&s->images.v[i]->symbols);
		ret->open_files += open_files_of(s->images.v[i]);
		ret->unread += s->images.v[i]->asked && !s->images.v[i]->ready;
	}
	ret->perfmaps_bytes = perfmaps_bytes(s->perfmaps);
	memcpy(ret->perfmap_reads, perfmaps_counts(s->perfmaps), sizeof ret->perfmap_reads);
	mutex_unlock(&s->lock);
}
