/* SPDX-License-Identifier: Apache-2.0 */
/* A record names a file by its path, which means little without its mount namespace, and by its build-id, which anybody can forge. So
 * the image found by them is at first only provisional. When a process is to be unwound, the kernel is asked for device and inode of
 * its mapping there, and the file (image_files.h) is read at once (image_content.h). Equal content is the same image, whatever the
 * device; different content is a separate image. A process that has ended by then has only the record; it gets the image that most
 * address spaces have. */
#include "agent/process/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/managed/rows.h"
#include "agent/process/cpu_budget.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec.h"

#define PRELOAD_BYTES_MAX ((uint64_t)8 << 20) /* of code: of larger files (JVM, Node) most never runs, and all of it is a third of the room */
#define PRELOAD_CALLS 32u            /* groups of pages, some 1 ms each; a CPython has 15 */
#define LOOK_AGAIN_NS 1000000000ll   /* whoever keeps changing a file does not keep us reading it */
#define FD_LINGER_NS 5000000000ll    /* so that names of the last samples can still be read */
#define TABLES_KEPT_NS 60000000000ll /* CPU time for tables that was not used in this time is kept for a burst of new programs */

/* A file as the kernel names it, and what it turned out to be. Devices and inodes are given again to other files: what is
 * older than ALIAS_NS is looked at again, which is cheap while the stamp is the same. */
struct alias {
	uint64_t key, dev, ino;      /* key: of the record */
	struct file_stamp stamp;
	struct image *image;         /* NULL = it was dropped */
	int64_t looked_ns;
};
#define ALIAS_NS 60000000000ll
#define ALIASES_MAX 16384

struct images {
	struct unwind_tables *tables;
	unsigned runtimes;           /* 1 << kind: is wanted */
	struct cpu_budget budget;    /* CPU time for building unwind tables */
	uint64_t postponed;          /* how often a table was not built because the budget was used up */
	bool not_now;                /* so it was in the last call of images_load_table() */
	VEC(struct image *) opened;  /* references: images_next_opened */
	struct map index;            /* what records say -> all[] */
	struct map contents;         /* -> all[] */
	struct map alias_index;      /* -> aliases[] */
	VEC(struct alias) aliases;
	VEC(struct image *) all;     /* NULL = free slot */
	VEC(uint32_t) spare;
};

struct images *images_new(struct unwind_tables *t, unsigned runtimes)
{
	struct images *x = NEW(struct images);
	x->tables = t;
	x->runtimes = runtimes;
	return x;
}

void images_set_share(struct images *x, double cpus, int64_t first_ns)
{
	cpu_budget_init(&x->budget, cpus, (int64_t)(cpus * TABLES_KEPT_NS), first_ns, clock_mono_ns());
}

uint64_t images_postponed(const struct images *x)
{
	return x->postponed;
}

static uint64_t content_hash(const struct image *im)
{
	return im->content.h[0];
}

static void drop(struct images *x, uint32_t slot)
{
	struct image *im = x->all.v[slot];
	map_remove(&x->index, im->key, slot);
	map_remove(&x->contents, content_hash(im), slot);
	for (size_t i = 0; i < x->aliases.n; i++)
		if (x->aliases.v[i].image == im)
			x->aliases.v[i].image = NULL;
	unwind_tables_image_gone(x->tables, im);
	x->all.v[slot] = NULL;
	vec_push(&x->spare, slot);
	image_unref(im);
}

void images_free(struct images *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->all.n; i++)
		if (x->all.v[i])
			drop(x, (uint32_t)i);
	for (size_t i = 0; i < x->opened.n; i++)
		image_unref(x->opened.v[i]);
	vec_free(&x->opened);
	map_free(&x->alias_index);
	vec_free(&x->aliases);
	map_free(&x->contents);
	map_free(&x->index);
	vec_free(&x->all);
	vec_free(&x->spare);
	free(x);
}

size_t images_count(const struct images *x)
{
	return x->all.n - x->spare.n;
}

static uint64_t key_hash(const struct image_key *k)
{
	uint64_t seed = k->build_id_len ? hash_bytes(k->build_id, k->build_id_len) : hash_u64(k->dev) ^ k->ino;
	return hash_bytes_seed(k->path.ptr, k->path.len, seed);
}

static bool key_is(const struct image *im, const struct image_key *k)
{
	if (!view_eqs(k->path, im->path))
		return false;
	if (k->build_id_len)
		return im->build_id_len == k->build_id_len && memcmp(im->build_id, k->build_id, k->build_id_len) == 0;
	return im->dev == k->dev && im->ino == k->ino;
}

/* A new image; its slot. */
static uint32_t add(struct images *x, const struct image_key *k, uint64_t hash)
{
	struct image *im = NEW(struct image);
	uint32_t slot;

	atomic_store(&im->refs, 1);
	atomic_store(&im->fd, -1);
	im->key = hash;
	im->path = xstrndup(k->path.ptr, k->path.len);
	memcpy(im->build_id, k->build_id, k->build_id_len);
	im->build_id_len = k->build_id_len;
	im->dev = k->dev;
	im->ino = k->ino;
	im->unmapped_ns = clock_mono_ns();
	if (x->spare.n) {
		slot = x->spare.v[--x->spare.n];
	} else {
		slot = (uint32_t)x->all.n;
		vec_push(&x->all, NULL);
	}
	x->all.v[slot] = im;
	return slot;
}

struct image *images_get(struct images *x, const struct image_key *k)
{
	uint64_t hash = key_hash(k);
	uint32_t slot;

	for (size_t at = map_start(&x->index, hash); map_probe(&x->index, hash, &at, &slot);)
		if (key_is(x->all.v[slot], k))
			return x->all.v[slot];
	slot = add(x, k, hash);
	map_insert(&x->index, hash, slot);
	return x->all.v[slot];
}

void images_map(struct image *im)
{
	im->mapped++;
}

void images_unmap(struct image *im)
{
	if (--im->mapped == 0)
		im->unmapped_ns = clock_mono_ns();
}

static void describe(struct image *im, const struct elf_file *f, unsigned runtimes)
{
	bool interp = false;

	for (size_t i = 0; i < f->n_ph; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		interp |= p->p_type == PT_INTERP;
		if (p->p_type != PT_LOAD || im->n_segments == IMAGE_SEGMENTS_MAX || !p->p_memsz ||
		    p->p_vaddr + p->p_memsz < p->p_vaddr)
			continue;
		im->segments[im->n_segments++] = (struct image_segment){ p->p_vaddr, p->p_memsz, p->p_offset, p->p_filesz,
									 (p->p_flags & PF_X) != 0 };
	}
	im->is_static = !interp && f->eh.e_type == ET_EXEC;
	im->is_go = elf_section(f, ".gopclntab") || elf_section(f, ".data.rel.ro.gopclntab") ||
		    elf_section(f, ".note.go.buildid");
	im->has_symtab = elf_section(f, ".symtab") != NULL;
	if (!im->build_id_len)
		im->build_id_len = (uint8_t)elf_build_id(f, im->build_id, sizeof im->build_id);
	im->runtime = runtime_recognise(f, im->path, runtimes);
}

static int open_vdso(struct elf_file *f)
{
	const Elf64_Ehdr *eh = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	if (!eh)
		return -ERR_NOT_FOUND;
	/* Two pages at least; the section headers, which come last, say how much it really is. */
	size_t size = eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize;
	return elf_open_mem(f, eh, MIN(size, (size_t)65536), NULL);
}

static bool is_vdso(const struct image *im)
{
	return strcmp(im->path, "[vdso]") == 0;
}

/* --- what a record led to, and what it is --- */

static uint64_t alias_hash(uint64_t key, const struct image_hint *hint)
{
	return hash_u64(key ^ hash_u64(hint->dev ^ hash_u64(hint->ino)));
}

static struct alias *find_alias(struct images *x, const struct image *im, const struct image_hint *hint)
{
	uint64_t hash = alias_hash(im->key, hint);
	uint32_t i;

	for (size_t at = map_start(&x->alias_index, hash); hint->ino && map_probe(&x->alias_index, hash, &at, &i);) {
		struct alias *a = &x->aliases.v[i];
		if (a->key == im->key && a->dev == hint->dev && a->ino == hint->ino)
			return a->image ? a : NULL;
	}
	return NULL;
}

static void remember(struct images *x, const struct image *record, const struct image_hint *hint,
		     const struct file_stamp *stamp, struct image *im)
{
	struct alias a = { record->key, hint->dev, hint->ino, *stamp, im, clock_mono_ns() };
	uint64_t hash = alias_hash(a.key, hint);
	uint32_t i;

	for (size_t at = map_start(&x->alias_index, hash); map_probe(&x->alias_index, hash, &at, &i);) {
		struct alias *old = &x->aliases.v[i];
		if (old->key == a.key && old->dev == a.dev && old->ino == a.ino) {
			*old = a;
			return;
		}
	}
	if (x->aliases.n == ALIASES_MAX) { /* what still runs comes back */
		x->aliases.n = 0;
		map_clear(&x->alias_index);
	}
	map_insert(&x->alias_index, hash, (uint32_t)x->aliases.n);
	vec_push(&x->aliases, a);
}

static struct image *find_content(struct images *x, const struct image_content *c)
{
	uint32_t slot;

	for (size_t at = map_start(&x->contents, c->h[0]); map_probe(&x->contents, c->h[0], &at, &slot);) {
		if (memcmp(&x->all.v[slot]->content, c, sizeof *c) == 0)
			return x->all.v[slot];
	}
	return NULL;
}

/* An image for a file of which the record `im` says the same as of another one. */
static struct image *add_twin(struct images *x, struct image *im, const struct image_hint *hint)
{
	struct image_key k = { .dev = hint->dev, .ino = hint->ino, .path = view_of(im->path) };

	memcpy(k.build_id, im->build_id, im->build_id_len);
	k.build_id_len = im->build_id_len;
	uint32_t slot = add(x, &k, im->key); /* which may move the list */
	struct image *twin = x->all.v[slot];
	im->twins = twin->twins = true;
	return twin;
}

static void use_file(struct image *im, int fd, const struct file_stamp *stamp)
{
	if (atomic_load(&im->fd) >= 0) {
		close(fd);
		return;
	}
	im->fd_stamp = *stamp;
	atomic_store(&im->fd, fd);
}

/* The image of an ELF file that was opened because of `im`. Takes fd. */
static struct image *image_of_elf(struct images *x, struct image *im, const struct image_hint *hint, int fd,
				  const struct elf_file *f, const struct file_stamp *stamp)
{
	struct image_content c;
	struct stat st;

	if (!image_content_of(f, stamp, &c)) {
		close(fd);               /* it is being written: another time */
		return im;
	}
	struct image *same = find_content(x, &c);
	if (!same) {
		same = im->state == IMAGE_UNOPENED ? im : add_twin(x, im, hint);
		same->state = IMAGE_ELF;
		same->content = c;
		same->stamp = *stamp;
		describe(same, f, x->runtimes);
		same->world_readable = fstat(fd, &st) == 0 && st.st_mode & S_IROTH;
		for (uint32_t slot = 0; slot < x->all.n; slot++)
			if (x->all.v[slot] == same)
				map_insert(&x->contents, content_hash(same), slot);
	}
	use_file(same, fd, stamp);
	return same;
}

/* The ELF file is not available. The files of other processes under the same name are not this process's. */
static struct image *image_without_file(struct images *x, struct image *im, const struct image_hint *hint,
					enum image_state state)
{
	if (im->state == IMAGE_UNOPENED)
		im->state = state;
	else if (im->state != state && hint->ino)
		(im = add_twin(x, im, hint))->state = state;
	return im;
}

/* For a process that is gone. */
static struct image *most_mapped(const struct images *x, struct image *im)
{
	struct image *best = im;

	for (size_t i = 0; im->twins && i < x->all.n; i++) {
		struct image *o = x->all.v[i];
		if (o && o->key == im->key && o->state == IMAGE_ELF && (best->state != IMAGE_ELF || o->mapped > best->mapped))
			best = o;
	}
	return best;
}

/* A process that ended has no program any more, and its directory no ways to files. */
static bool is_gone(uint32_t pid)
{
	char name[64], target[8];

	snprintf(name, sizeof name, "/proc/%u/exe", pid);
	return readlink(name, target, sizeof target) < 0;
}

static struct image *look_at_file(struct images *x, struct image *im, const struct image_hint *hint)
{
	static const struct file_stamp none;
	struct alias *known = find_alias(x, im, hint);
	struct file_stamp stamp;
	struct elf_file f;
	bool is_elf;

	if (known && clock_mono_ns() - known->looked_ns < ALIAS_NS &&
	    (known->image->state != IMAGE_ELF || atomic_load(&known->image->fd) >= 0))
		return known->image;
	if (!hint->ino && im->state != IMAGE_UNOPENED && (im->state != IMAGE_ELF || atomic_load(&im->fd) >= 0))
		return most_mapped(x, im);
	int fd = image_find_file(im, hint, &f, &is_elf);
	if (fd < 0 && im->state == IMAGE_ELF && is_gone(hint->pid))
		return most_mapped(x, im);
	if (fd < 0 || !is_elf || !file_stamp_of(fd, &stamp)) {
		struct image *ret = image_without_file(x, im, hint, fd < 0 ? IMAGE_UNREADABLE : IMAGE_NOT_ELF);
		if (fd >= 0) {
			if (is_elf)
				elf_close(&f);
			close(fd);
		}
		if (hint->ino && !is_gone(hint->pid))
			remember(x, im, hint, &none, ret);
		return ret;
	}
	struct image *ret = known && file_stamp_eq(&stamp, &known->stamp) ? known->image :
			    im->state == IMAGE_ELF && file_stamp_eq(&stamp, &im->stamp) ? im : NULL;
	if (ret)
		use_file(ret, fd, &stamp);
	else
		ret = image_of_elf(x, im, hint, fd, &f, &stamp);
	elf_close(&f);
	if (hint->ino && ret->state == IMAGE_ELF)
		remember(x, im, hint, &stamp, ret);
	return ret;
}

static void look_at_vdso(struct image *im)
{
	struct elf_file f;

	if (im->state != IMAGE_UNOPENED)
		return;
	im->state = IMAGE_UNREADABLE;
	if (open_vdso(&f) == 0) {
		describe(im, &f, 0);
		im->state = IMAGE_ELF;
		elf_close(&f);
	}
}

struct image *images_open(struct images *x, struct image *im, const struct image_hint *hint)
{
	if (is_vdso(im))
		look_at_vdso(im);
	else
		im = look_at_file(x, im, hint);
	if (im->state == IMAGE_UNOPENED || im->id || im->state == IMAGE_NOT_ELF)
		return im;
	im->sampled_ns = clock_mono_ns();
	unwind_tables_image_id(x->tables, im);
	if (im->state == IMAGE_ELF)
		vec_push(&x->opened, image_ref(im));
	return im;
}

bool images_may_be_runtime(const struct images *x, const struct image *im)
{
	if (im->state == IMAGE_UNOPENED && !im->twins)
		return runtime_may_be(im->path, x->runtimes);
	return im->runtime && !im->runtime->why_not[0];
}

struct image *images_next_opened(struct images *x)
{
	return x->opened.n ? x->opened.v[--x->opened.n] : NULL;
}

/* Whether an open file is what it was when it was looked at. A name more or less changes its stamp as well as writing
 * does: then its content says. */
static bool is_unchanged(struct image *im, int fd)
{
	struct file_stamp now;
	struct image_content c;
	struct elf_file f;

	if (!file_stamp_of(fd, &now))
		return false;
	if (file_stamp_eq(&now, &im->fd_stamp))
		return true;
	int64_t now_ns = clock_mono_ns();
	if (now_ns - im->compared_ns < LOOK_AGAIN_NS || elf_open(&f, fd, NULL))
		return false;
	im->compared_ns = now_ns;
	bool same = image_content_of(&f, &now, &c) && memcmp(&c, &im->content, sizeof c) == 0;
	elf_close(&f);
	if (same)
		im->fd_stamp = now;
	return same;
}

static bool load_table(struct images *x, struct image *im, uint64_t vaddr)
{
	struct elf_file f;
	int fd = atomic_load(&im->fd);

	if (fd >= 0 && !is_unchanged(im, fd)) { /* another process's may be */
		image_close_file(im);
		return false;
	}
	int r = is_vdso(im) ? open_vdso(&f) : fd >= 0 ? elf_open(&f, fd, NULL) : -ERR_NOT_FOUND;
	/* Closed for the moment is not the same as without a table. */
	bool ok = (r == 0 || im->state != IMAGE_ELF) && unwind_tables_load(x->tables, im, r == 0 ? &f : NULL, vaddr);
	if (r == 0)
		elf_close(&f);
	return ok;
}

bool images_load_table(struct images *x, struct image *im, uint64_t vaddr)
{
	x->not_now = false;
	if (!im->id || !unwind_tables_missing(x->tables, im, vaddr))
		return false;
	x->not_now = !cpu_budget_open(&x->budget, clock_mono_ns());
	x->postponed += x->not_now;
	if (x->not_now)
		return false;
	int64_t from_ns = clock_cpu_ns();
	bool ok = load_table(x, im, vaddr);
	cpu_budget_charge(&x->budget, clock_cpu_ns() - from_ns);
	return ok;
}

enum stack_end images_why_no_table(const struct images *x, const struct image *im)
{
	return x->not_now ? END_NOT_BUILT : unwind_tables_full(x->tables, im) ? END_TABLES_FULL : END_NO_TABLE;
}

/* Returns what is left of `calls`. */
static unsigned preload_range(struct images *x, struct image *im, uint64_t start, uint64_t end, unsigned calls)
{
	for (uint64_t at = start & ~(uint64_t)(STACK_PAGE - 1); at < end && calls; at += STACK_PAGE)
		calls -= images_load_table(x, im, at);
	return calls;
}

bool images_preload(struct images *x, struct image *im, unsigned *calls_left)
{
	if (im->preloaded || !im->runtime)
		return true;
	if (!cpu_budget_open(&x->budget, clock_mono_ns()))
		return false;
	unsigned most = MIN(*calls_left, PRELOAD_CALLS - im->preload_calls), calls = most;
	for (unsigned i = 0; i < im->runtime->n_interpreter; i++)
		calls = preload_range(x, im, im->runtime->interpreter[i].start, im->runtime->interpreter[i].end, calls);
	for (unsigned i = 0; i < im->n_segments; i++)
		if (im->segments[i].exec && im->segments[i].memsz <= PRELOAD_BYTES_MAX)
			calls = preload_range(x, im, im->segments[i].vaddr, im->segments[i].vaddr + im->segments[i].memsz, calls);
	*calls_left -= most - calls;
	im->preload_calls += (uint8_t)(most - calls);
	im->preloaded = calls || im->preload_calls == PRELOAD_CALLS;
	return im->preloaded;
}

void images_sweep(struct images *x, int64_t before_ns)
{
	int64_t now = clock_mono_ns();

	for (size_t i = 0; i < x->all.n; i++) {
		struct image *im = x->all.v[i];
		if (!im || im->mapped)
			continue;
		if (im->sampled_ns < before_ns && im->unmapped_ns < now - FD_LINGER_NS)
			drop(x, (uint32_t)i);
		else if (im->unmapped_ns < now - FD_LINGER_NS)
			image_close_file(im);
	}
}
