/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes are opened in three ways, the first that works: the kernel's own link for a mapping
 * (/proc/PID/map_files, the very file even when it is deleted), its path below the process's root, and its path below
 * ours. The latter two resolve hostile names: no magic links, nothing above the root, no waiting on a FIFO; and the
 * file must have the build-id (or the inode) that the kernel saw being mapped. */
#include "agent/images.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/symbolize.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec.h"

#define FD_LINGER_NS 5000000000ll    /* so that names of the last samples can still be read */
#define PATH_BYTES_MAX 4096

struct images {
	struct tables *tables;
	struct symbolizer *symbolizer;
	struct map index;            /* key -> all[] */
	VEC(struct image *) all;     /* NULL = free slot */
	VEC(uint32_t) spare;
};

struct image *image_ref(struct image *im)
{
	atomic_fetch_add_explicit(&im->refs, 1, memory_order_relaxed);
	return im;
}

/* Held while a descriptor is closed or copied, so that no copy is of another file that got the same number. */
static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER;

static void close_file(struct image *im)
{
	pthread_mutex_lock(&fd_lock);
	int fd = atomic_exchange(&im->fd, -1);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&fd_lock);
}

void image_unref(struct image *im)
{
	if (!im || atomic_fetch_sub(&im->refs, 1) != 1)
		return;
	close_file(im);
	free(im->path);
	free(im);
}

int image_dup_fd(struct image *im)
{
	pthread_mutex_lock(&fd_lock);
	int fd = atomic_load(&im->fd);
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	pthread_mutex_unlock(&fd_lock);
	return copy;
}

bool image_segment_at(const struct image *im, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_limit,
		      uint64_t *ret_offset)
{
	for (unsigned i = 0; i < im->n_segments; i++) {
		const struct image_segment *s = &im->segments[i];
		uint64_t start = s->vaddr & ~4095ull;
		if (vaddr < start || vaddr >= s->vaddr + s->memsz)
			continue;
		*ret_start = start;
		*ret_limit = (s->vaddr + s->memsz + 4095) & ~4095ull;
		*ret_offset = s->offset & ~4095ull;
		return true;
	}
	return false;
}

char *image_build_id_hex(const struct image *im, char *out)
{
	for (unsigned i = 0; i < im->build_id_len; i++)
		snprintf(out + 2 * i, 3, "%02x", im->build_id[i]);
	out[2 * im->build_id_len] = 0;
	return out;
}

struct images *images_new(struct tables *t, struct symbolizer *s)
{
	struct images *x = NEW(struct images);
	x->tables = t;
	x->symbolizer = s;
	return x;
}

static void drop(struct images *x, uint32_t slot)
{
	struct image *im = x->all.v[slot];
	map_remove(&x->index, im->key, slot);
	tables_image_gone(x->tables, im);
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
	if (k->build_id_len)
		return hash_bytes(k->build_id, k->build_id_len);
	return hash_bytes_seed(k->path.ptr, k->path.len, hash_u64(k->dev) ^ k->ino);
}

static bool key_is(const struct image *im, const struct image_key *k)
{
	if (k->build_id_len)
		return im->build_id_len == k->build_id_len && memcmp(im->build_id, k->build_id, k->build_id_len) == 0;
	return im->dev == k->dev && im->ino == k->ino && view_eqs(k->path, im->path);
}

struct image *images_get(struct images *x, const struct image_key *k)
{
	uint64_t hash = key_hash(k);
	uint32_t slot;

	for (size_t at = map_start(&x->index, hash); map_probe(&x->index, hash, &at, &slot);)
		if (key_is(x->all.v[slot], k))
			return x->all.v[slot];
	struct image *im = NEW(struct image);
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
	map_insert(&x->index, hash, slot);
	return im;
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

static int open_below(const char *root, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
	close(dir);
	return fd;
}

int image_open_file(const char *path, const struct image_hint *hint, enum image_way way)
{
	char name[64];

	if (way == WAY_MAP_FILES) {
		snprintf(name, sizeof name, "/proc/%u/map_files/%llx-%llx", hint->pid, (unsigned long long)hint->start,
			 (unsigned long long)hint->end);
		return hint->pid ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	}
	if (path[0] != '/' || strnlen(path, PATH_BYTES_MAX) == PATH_BYTES_MAX)
		return -1;
	if (way == WAY_OUR_ROOT)
		return open_below("/", path);
	snprintf(name, sizeof name, "/proc/%u/root", hint->pid);
	return hint->pid ? open_below(name, path) : -1;
}

void image_key_of_fd(int fd, struct view path, struct image_key *ret)
{
	struct elf_file f;
	struct stat st;

	memset(ret, 0, sizeof *ret);
	ret->path = path;
	if (fstat(fd, &st) == 0) {
		ret->dev = st.st_dev;
		ret->ino = st.st_ino;
	}
	if (elf_open(&f, fd, NULL) == 0) {
		ret->build_id_len = (uint8_t)elf_build_id(&f, ret->build_id, sizeof ret->build_id);
		elf_close(&f);
	}
}

/* The name the kernel gives an open file, as records of mappings have it. */
static bool is_called(int fd, const char *path)
{
	char name[64], target[PATH_BYTES_MAX];

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, target, sizeof target);
	return n > 0 && view_eqs(view_make(target, (size_t)n), path);
}

/* Is this the file that was mapped? Whichever way it was found: by now another one may be mapped there, or have its
 * name. f NULL: it is not ELF. */
static bool same_file(const struct image *im, int fd, const struct elf_file *f, enum image_way way)
{
	uint8_t id[BUILD_ID_MAX];
	struct stat st;

	if (im->build_id_len) {
		size_t n = f ? elf_build_id(f, id, sizeof id) : 0;
		return n == im->build_id_len && memcmp(id, im->build_id, n) == 0;
	}
	/* Devices differ where a file system stands on another (overlayfs), and inodes may, too. */
	return (im->ino && fstat(fd, &st) == 0 && st.st_ino == im->ino) || (way == WAY_MAP_FILES && is_called(fd, im->path));
}

/* The descriptor of the image's file and, in *f, what it is (is_elf; else f is not open); -1 if no way leads there. */
static int find_file(const struct image *im, const struct image_hint *hint, struct elf_file *f, bool *is_elf)
{
	for (enum image_way way = 0; way < WAYS; way++) {
		int fd = image_open_file(im->path, hint, way);
		if (fd < 0)
			continue;
		*is_elf = elf_open(f, fd, NULL) == 0;
		if (same_file(im, fd, *is_elf ? f : NULL, way))
			return fd;
		if (*is_elf)
			elf_close(f);
		close(fd);
	}
	return -1;
}

static void describe(struct image *im, const struct elf_file *f)
{
	bool interp = false;

	for (size_t i = 0; i < f->n_ph; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		interp |= p->p_type == PT_INTERP;
		im->has_eh_frame |= p->p_type == PT_GNU_EH_FRAME;
		if (p->p_type != PT_LOAD || im->n_segments == IMAGE_SEGMENTS_MAX || !p->p_memsz ||
		    p->p_vaddr + p->p_memsz < p->p_vaddr)
			continue;
		im->segments[im->n_segments++] = (struct image_segment){ p->p_vaddr, p->p_memsz, p->p_offset, p->p_filesz,
									 (p->p_flags & PF_X) != 0 };
	}
	im->is_static = !interp && f->eh.e_type == ET_EXEC;
	im->is_go = elf_section(f, ".gopclntab") || elf_section(f, ".data.rel.ro.gopclntab") ||
		    elf_section(f, ".note.go.buildid");
	im->has_eh_frame |= elf_section(f, ".eh_frame") != NULL;
	im->has_symtab = elf_section(f, ".symtab") != NULL;
	if (!im->build_id_len)
		im->build_id_len = (uint8_t)elf_build_id(f, im->build_id, sizeof im->build_id);
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

static void open_image_file(struct image *im, const struct image_hint *hint)
{
	struct elf_file f;
	struct stat st;
	bool is_elf;
	int fd = find_file(im, hint, &f, &is_elf);

	im->state = fd < 0 ? IMAGE_UNREADABLE : is_elf ? IMAGE_ELF : IMAGE_NOT_ELF;
	if (im->state != IMAGE_ELF) {
		if (fd >= 0)
			close(fd);
		return;
	}
	describe(im, &f);
	im->world_readable = fstat(fd, &st) == 0 && st.st_mode & S_IROTH;
	atomic_store(&im->fd, fd);
	elf_close(&f);
}

void images_open(struct images *x, struct image *im, const struct image_hint *hint)
{
	struct elf_file f;

	if (im->state == IMAGE_ELF && atomic_load(&im->fd) < 0 && !is_vdso(im)) {
		/* Nobody had mapped it for a while, and its file was closed. */
		bool is_elf;
		int fd = find_file(im, hint, &f, &is_elf);
		if (fd >= 0) {
			if (is_elf)
				elf_close(&f);
			atomic_store(&im->fd, fd);
		}
	}
	if (im->state != IMAGE_UNOPENED && (im->id || im->state == IMAGE_NOT_ELF))
		return;
	if (is_vdso(im)) {
		im->state = IMAGE_UNREADABLE;
		if (open_vdso(&f) == 0) {
			describe(im, &f);
			im->state = IMAGE_ELF;
			elf_close(&f);
		}
	} else if (im->state == IMAGE_UNOPENED) {
		open_image_file(im, hint);
	}
	im->sampled_ns = clock_mono_ns();
	if (im->state != IMAGE_NOT_ELF)
		tables_image_id(x->tables, im);
	if (im->state == IMAGE_ELF && x->symbolizer)
		symbolizer_image(x->symbolizer, im);
}

bool images_load_table(struct images *x, struct image *im, uint64_t vaddr)
{
	struct elf_file f;
	int fd = atomic_load(&im->fd);

	if (!im->id || !tables_missing(x->tables, im, vaddr))
		return false;
	int r = is_vdso(im) ? open_vdso(&f) : fd >= 0 ? elf_open(&f, fd, NULL) : -ERR_NOT_FOUND;
	/* Closed for the moment is not the same as without a table. */
	bool ok = (r == 0 || im->state != IMAGE_ELF) && tables_load(x->tables, im, r == 0 ? &f : NULL, vaddr);
	if (r == 0)
		elf_close(&f);
	return ok;
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
			close_file(im);
	}
}
