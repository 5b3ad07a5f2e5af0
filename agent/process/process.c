/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/kernel/kernel_procs.h"
#include "agent/kernel/perf_events.h"
#include "agent/process/proc_files.h"
#include "agent/runtime/proc_reader.h"
#include "base/alloc.h"
#include "base/clock.h"

#define REREAD_NS 1000000000ll
#define REREAD_MAX_NS 64000000000ll  /* a process that it never helps is read again so seldom */
#define REGIONS_NS 60000000000ll     /* names that a program gives to its memory are no records */
#define FRUITLESS_MAX 5              /* then the process is left alone until it maps something */
#define SILENT_NS 1000000000ll       /* one that does not answer is asked again after this, then each time twice as long */
#define SILENT_MAX_NS 64000000000ll
#define EARLY_PER_S 50               /* processes that are got ready before their first sample */
#define PRELOAD_AT_ONCE 4            /* groups of pages of tables that are built in advance in one drain */

struct processes {
	struct unwind_tables *tables;
	struct images *images;
	struct map index;            /* pid -> all[] */
	VEC(struct process *) all;   /* NULL = free */
	VEC(uint32_t) spare;
	VEC(uint32_t) dirty;         /* pids to look at after the drain */
	VEC(struct image *) preload; /* references; of runtimes whose tables are to be built in advance */
	VEC(uint32_t) early;         /* pids that mapped a runtime in this drain */
	VEC(uint32_t) dead, gone;    /* pids that ended in this drain, in the one before */
	struct process_runtimes runtimes;
	bool executed;               /* a program, in this drain */
	int64_t early_ns;            /* when the second began that `earlies` counts in */
	uint32_t earlies;
	struct code_regions regions;
	uint32_t next_set;
	int64_t swept_ns;
	uint64_t maps_reads;
};

struct processes *processes_new(struct unwind_tables *t, struct images *x, int runtime_fd)
{
	struct processes *ps = NEW(struct processes);
	process_runtimes_init(&ps->runtimes, runtime_fd);
	ps->tables = t;
	ps->images = x;
	ps->next_set = 1;
	return ps;
}

struct changing {
	struct processes *ps;
	struct process *p;
};

/* The earlier mapping there is gone; the kernel's tables still have it for a while. */
static void note_stale(void *arg, const struct image *im)
{
	struct changing *c = arg;
	struct process *p = c->p;

	if (!p->pushed)
		return;
	p->stale[p->n_stale++ % STALE_MAX] = (struct stale){ im ? im->id : IMAGE_JIT, c->ps->next_set };
}

static bool add_mapping(struct processes *ps, struct process *p, struct mapping m)
{
	return address_space_add(&p->as, m, note_stale, &(struct changing){ ps, p });
}

bool process_frame_stale(const struct process *p, uint32_t image, uint32_t set)
{
	for (unsigned i = 0; i < STALE_MAX && i < p->n_stale; i++)
		if (p->stale[i].image == image && set < p->stale[i].set)
			return true;
	return false;
}

/* --- the table --- */

static struct process *find(const struct processes *ps, uint32_t pid)
{
	uint64_t hash = hash_u64(pid);
	uint32_t slot;

	for (size_t at = map_start(&ps->index, hash); map_probe(&ps->index, hash, &at, &slot);)
		if (ps->all.v[slot]->pid == pid)
			return ps->all.v[slot];
	return NULL;
}

static struct process *add(struct processes *ps, uint32_t pid)
{
	struct process *p = NEW(struct process);
	uint32_t slot;

	p->pid = pid;
	p->exec_id = EXEC_ANY;
	p->min_set = ps->next_set;
	if (ps->spare.n) {
		slot = ps->spare.v[--ps->spare.n];
	} else {
		slot = (uint32_t)ps->all.n;
		vec_push(&ps->all, NULL);
	}
	ps->all.v[slot] = p;
	map_insert(&ps->index, hash_u64(pid), slot);
	return p;
}

/* Takes the process out of the kernel's tables. `known`: the entry is of this process and must be deleted. */
static void leave_kernel(struct processes *ps, struct process *p)
{
	if (p->in_kernel)
		kernel_procs_remove(unwind_tables_procs(ps->tables), p->pid);
	p->in_kernel = false;
	process_runtimes_leave(&ps->runtimes, p);
	struct address_space *as = p->pushed;
	p->pushed = NULL;
	if (as && --as->kernel_users == 0)
		unwind_tables_maps_free(ps->tables, as->kernel_first, (uint32_t)as->v.n);
	address_space_unref(as);
}

static void set_exe(struct process *p, struct image *im)
{
	if (im)
		image_ref(im);
	image_unref(p->exe);
	p->exe = im;
}

static void forget_info(struct process *p)
{
	process_info_unref(p->info);
	p->info = NULL;
}

static void drop(struct processes *ps, struct process *p)
{
	uint64_t hash = hash_u64(p->pid);
	uint32_t slot;

	leave_kernel(ps, p);
	address_space_unref(p->as);
	set_exe(p, NULL);
	forget_info(p);
	process_runtimes_end(p);
	for (size_t at = map_start(&ps->index, hash); map_probe(&ps->index, hash, &at, &slot);) {
		if (ps->all.v[slot] == p) {
			map_remove(&ps->index, hash, slot);
			ps->all.v[slot] = NULL;
			vec_push(&ps->spare, slot);
			break;
		}
	}
	free(p);
}

void processes_free(struct processes *ps)
{
	if (!ps)
		return;
	for (size_t i = 0; i < ps->all.n; i++)
		if (ps->all.v[i])
			drop(ps, ps->all.v[i]);
	map_free(&ps->index);
	vec_free(&ps->all);
	vec_free(&ps->spare);
	vec_free(&ps->dirty);
	for (size_t i = 0; i < ps->preload.n; i++)
		image_unref(ps->preload.v[i]);
	vec_free(&ps->preload);
	vec_free(&ps->early);
	process_runtimes_release(&ps->runtimes);
	vec_free(&ps->dead);
	vec_free(&ps->gone);
	free(ps);
}

size_t processes_count(const struct processes *ps)
{
	return ps->all.n - ps->spare.n;
}

const struct process_runtimes *processes_runtimes(const struct processes *ps)
{
	return &ps->runtimes;
}

size_t processes_in_kernel(const struct processes *ps)
{
	size_t n = 0;
	for (size_t i = 0; i < ps->all.n; i++)
		n += ps->all.v[i] && ps->all.v[i]->in_kernel;
	return n;
}

static void mark_dirty(struct processes *ps, struct process *p)
{
	if (p->dirty || !p->hot)
		return;
	p->dirty = true;
	vec_push(&ps->dirty, p->pid);
}

/* --- records --- */

/* A process that runs a runtime, most likely: its first frames are not to be lost. */
static void mark_early(struct processes *ps, struct process *p)
{
	if (p->early || p->hot)
		return;
	p->early = true;
	vec_push(&ps->early, p->pid);
}

static bool runs_runtime(const struct process *p)
{
	for (unsigned i = 0; i < RUNTIME_KINDS; i++)
		if (p->runtimes[i])
			return true;
	return false;
}

void processes_fork(struct processes *ps, uint32_t pid, uint32_t parent)
{
	struct process *p = find(ps, pid), *from = find(ps, parent);

	if (p)
		drop(ps, p);
	p = add(ps, pid);
	p->parent = parent;
	p->started_ns = clock_mono_ns();
	if (!from)
		return;
	p->exec_id = from->exec_id;
	if (runs_runtime(from))
		mark_early(ps, p);
	memcpy(p->comm, from->comm, sizeof p->comm);
	p->read_proc = from->read_proc;
	p->from_exec = from->from_exec;
	set_exe(p, from->exe);
	if (from->as)
		p->as = address_space_ref(from->as);
}

static void set_comm(struct process *p, const char *comm)
{
	snprintf(p->comm, sizeof p->comm, "%.15s", comm);
	forget_info(p);
}

void processes_exec(struct processes *ps, uint32_t pid, const char *comm)
{
	struct process *p = find(ps, pid);

	if (!p)
		p = add(ps, pid);
	address_space_unref(p->as);
	set_exe(p, NULL);
	process_runtimes_end(p);
	p->as = address_space_new();
	p->read_proc = p->from_exec = true; /* from here on the records tell everything */
	p->exec_id += p->exec_id != EXEC_ANY;
	p->started_ns = clock_mono_ns();
	ps->executed = true;
	p->early = false;            /* its own files decide */
	p->fruitless = 0;
	p->dead = false;
	p->in_kernel = p->in_kernel && p->set >= p->min_set;
	leave_kernel(ps, p);
	p->min_set = ps->next_set;
	set_comm(p, comm);
	mark_dirty(ps, p);
}

void processes_comm(struct processes *ps, uint32_t pid, const char *comm)
{
	struct process *p = find(ps, pid);
	if (p)
		set_comm(p, comm);
}

void processes_exit(struct processes *ps, uint32_t pid)
{
	struct process *p = find(ps, pid);

	if (!p || p->dead)
		return;
	p->dead = true;
	process_runtimes_end(p);
	vec_push(&ps->dead, pid);
}

/* Whether a record of a mapping is of use. If the mappings were not read yet, /proc has it, if it is ever needed. */
static bool is_taken(const struct process *p, uint64_t start, uint64_t len)
{
	return p->as && start + len > start;
}

static void mapped(struct processes *ps, struct process *p, struct mapping m)
{
	if (add_mapping(ps, p, m)) {
		p->fruitless = 0;
		mark_dirty(ps, p);
	}
}

void processes_mmap(struct processes *ps, uint32_t pid, uint64_t start, uint64_t len, uint64_t file_offset,
		    const struct image_key *key)
{
	struct process *p = find(ps, pid);

	if (!p || !is_taken(p, start, len))
		return;
	struct mapping m = { start, start + len, file_offset, images_get(ps->images, key), false, 0 };
	/* The first file that an exec maps is the program. */
	if (!p->exe)
		set_exe(p, m.image);
	mapped(ps, p, m);
	if (images_may_be_runtime(ps->images, m.image))
		mark_early(ps, p);
}

void processes_mmap_code(struct processes *ps, uint32_t pid, uint64_t start, uint64_t len, const char *path)
{
	struct process *p = find(ps, pid);

	if (p && is_taken(p, start, len))
		mapped(ps, p, (struct mapping){ start, start + len, 0, NULL, false, code_regions_id(&ps->regions, path) });
}

void processes_doubt(struct processes *ps)
{
	for (size_t i = 0; i < ps->all.n; i++) {
		struct process *p = ps->all.v[i];
		if (!p)
			continue;
		if (kill((pid_t)p->pid, 0) < 0 && errno == ESRCH) {
			processes_exit(ps, p->pid);
			continue;
		}
		p->read_proc = p->from_exec = false;
		p->comm[0] = 0;      /* read again with the next sample */
		p->reread_ns = p->reread_wait_ns = 0;
		p->fruitless = 0;
	}
}

/* --- /proc --- */

static void read_comm(struct process *p)
{
	char name[64], comm[32];

	snprintf(name, sizeof name, "/proc/%u/comm", p->pid);
	FILE *f = fopen(name, "re");
	if (!f)
		return;
	if (fgets(comm, sizeof comm, f)) {
		comm[strcspn(comm, "\n")] = 0;
		set_comm(p, comm);
	}
	fclose(f);
}

/* The image of a mapping that names a file; by build-id if the file has one, as the kernel's records have it. */
static struct image *image_of(struct processes *ps, uint32_t pid, const struct proc_map *m)
{
	struct image_hint hint = { pid, m->start, m->end, m->dev, m->ino };
	struct image_key key = { .dev = m->dev, .ino = m->ino, .path = view_of(m->path) };

	if (strcmp(m->path, "[vdso]") == 0) {
		key.dev = key.ino = 0;
		return images_get(ps->images, &key);
	}
	if (!mapping_is_file(m->path))
		return NULL;
	for (enum image_way way = 0; way < WAYS; way++) {
		int fd = image_open_file(m->path, &hint, way);
		if (fd < 0)
			continue;
		struct image_key k;
		image_key_of_fd(fd, key.path, &k);
		close(fd);
		if (way == WAY_MAP_FILES || k.ino == m->ino) {
			memcpy(key.build_id, k.build_id, sizeof key.build_id);
			key.build_id_len = k.build_id_len;
			break;
		}
	}
	if (!mapping_is_image(m->path, key.build_id_len > 0))
		return NULL;
	return images_get(ps->images, &key);
}

struct maps_reading {
	struct processes *ps;
	struct process *p;
	uint32_t pid;                /* whose maps are read */
	size_t at;                   /* take_region: the first mapping that may be in the next region */
	char exe[4096];              /* the program's path; "" = not known */
};

static void take_map(void *arg, const struct proc_map *m)
{
	struct maps_reading *r = arg;

	if (strcmp(m->path, "[vsyscall]") == 0)
		return;
	struct image *im = image_of(r->ps, r->pid, m);
	if (im && r->exe[0] && strcmp(r->exe, m->path) == 0)
		set_exe(r->p, im);
	add_mapping(r->ps, r->p, (struct mapping){ m->start, m->end, m->file_offset, im, false,
						   im ? REGION_ANONYMOUS : code_regions_id(&r->ps->regions, m->path) });
}

/* Somebody keeps its memory locked (proc_reader.h). */
static void fall_silent(struct process *p)
{
	p->silent_ns = MIN(MAX(2 * p->silent_ns, SILENT_NS), SILENT_MAX_NS);
	p->ask_ns = clock_mono_ns() + p->silent_ns;
}

static bool is_silent(const struct process *p)
{
	return p->silent_ns && clock_mono_ns() < p->ask_ns;
}

/* Reads the maps of `pid` into p. */
static bool read_maps(struct processes *ps, struct process *p, uint32_t pid)
{
	struct maps_reading r = { .ps = ps, .p = p, .pid = pid };
	struct address_space *old = p->as;
	char name[64];

	snprintf(name, sizeof name, "/proc/%u/exe", pid);
	if (readlink(name, r.exe, sizeof r.exe - 1) < 0)
		r.exe[0] = 0;
	p->as = address_space_new();
	ps->maps_reads++;
	enum proc_answer answer = proc_reader_maps(pid, take_map, &r);
	if (answer != PROC_READ || !p->as->v.n) { /* a kernel thread, or it is ending */
		address_space_unref(p->as);
		p->as = old;
		if (answer == PROC_STUCK) {
			p->read_proc = false;
			fall_silent(p);
		}
		return false;
	}
	p->silent_ns = 0;
	address_space_unref(old);
	mark_dirty(ps, p);
	return true;
}

/* --- samples --- */

struct process *processes_sampled(struct processes *ps, uint32_t pid, uint32_t exec_id, int64_t now_ns)
{
	struct process *p = find(ps, pid);

	if (!p)
		p = add(ps, pid);
	if (!p->comm[0])
		read_comm(p);
	p->sampled_ns = now_ns;
	process_runtimes_sampled(&ps->runtimes, p, now_ns);
	if (p->exec_id != exec_id) {
		if (p->exec_id != EXEC_ANY) { /* a program that no record told of */
			process_runtimes_leave(&ps->runtimes, p);
			process_runtimes_end(p);
		}
		p->exec_id = exec_id;
		mark_dirty(ps, p);
	}
	return p;
}

/* The ELF virtual address that a mapping's start has. */
static uint64_t vaddr_of(const struct mapping *m)
{
	for (unsigned i = 0; i < m->image->n_segments; i++) {
		const struct image_segment *s = &m->image->segments[i];
		if (s->exec && m->file_offset >= (s->offset & ~4095ull) && m->file_offset < s->offset + s->filesz)
			return s->vaddr - s->offset + m->file_offset;
	}
	return m->file_offset;
}

/* Records tell build-ids; what files they are is the kernel's to say. */
static void settle_images(struct processes *ps, struct process *p)
{
	struct proc_files files = { 0 };
	bool asked = is_silent(p), answered = false;

	for (size_t i = 0; i < p->as->v.n; i++) {
		struct mapping *m = &p->as->v.v[i];
		if (!m->image || m->settled)
			continue;
		if (!asked) {
			enum proc_answer answer = proc_files_read(&files, p->pid);
			answered = answer == PROC_READ;
			if (answer == PROC_STUCK)
				fall_silent(p);
			ps->maps_reads++;
		}
		asked = true;
		const struct proc_file *f = proc_files_at(&files, m->start);
		struct image *im = images_open(ps->images, m->image, &(struct image_hint){ p->pid, m->start, m->end,
											 f ? f->dev : 0, f ? f->ino : 0 });
		/* The vDSO is the kernel's own. Where /proc has no file any more, none comes back without a record: not to be asked
		 * again each time that a JIT maps something. */
		m->settled = f || answered || im->path[0] == '[';
		if (p->exe == m->image) {
			image_unref(p->as->exe_file);
			p->as->exe_file = image_ref(im);
		}
		if (im == m->image)
			continue;
		images_map(im);
		images_unmap(m->image);
		m->image = im;
	}
	proc_files_release(&files);
}

static void prepare_unwind(struct processes *ps, struct process *p)
{
	struct address_space *as = p->as;

	as->unwind = xcalloc(as->v.n ? as->v.n : 1, sizeof *as->unwind);
	settle_images(ps, p);
	for (size_t i = 0; i < as->v.n; i++) {
		const struct mapping *m = &as->v.v[i];
		struct unwind_map *u = &as->unwind[i];
		u->start = u->vaddr = m->start;
		u->n_pages = (uint32_t)((m->end - m->start) >> TEXT_PAGE_SHIFT);
		u->image = IMAGE_JIT;
		if (!m->image)
			continue;
		if (m->image->id) {
			u->image = m->image->id;
			u->vaddr = vaddr_of(m);
		}
	}
}

bool processes_prepare(struct processes *ps, struct process *p)
{
	if (!p->read_proc && !is_silent(p)) {
		p->read_proc = true;
		if (!read_maps(ps, p, p->pid) && !p->as && p->parent)
			read_maps(ps, p, p->parent);
	}
	if (!p->as)
		return false;
	if (!p->as->unwind)
		prepare_unwind(ps, p);
	if (!p->hot) {
		p->hot = true;
		mark_dirty(ps, p);
	}
	return true;
}

const struct mapping *process_mapping_at(const struct process *p, uint64_t addr)
{
	return address_space_at(p->as, addr);
}

bool processes_reread(struct processes *ps, struct process *p, uint64_t addr, int64_t now_ns)
{
	if (p->dead || is_silent(p) || p->fruitless >= FRUITLESS_MAX || (p->reread_ns && now_ns - p->reread_ns < p->reread_wait_ns))
		return false;
	p->reread_wait_ns = p->reread_ns ? MIN(2 * p->reread_wait_ns, REREAD_MAX_NS) : REREAD_NS;
	p->reread_ns = now_ns;
	if (!read_maps(ps, p, p->pid)) {
		p->fruitless++;
		return false;
	}
	if (process_mapping_at(p, addr)) {
		p->fruitless = 0;
		p->reread_wait_ns = REREAD_NS;
		return processes_prepare(ps, p);
	}
	if (++p->fruitless >= FRUITLESS_MAX)
		mark_dirty(ps, p);
	processes_prepare(ps, p);
	return false;
}

/* --- code without a file --- */

static void take_region(void *arg, const struct proc_map *m)
{
	struct maps_reading *r = arg;

	if (strncmp(m->path, "[anon:", 6) != 0)
		return;
	struct address_space *as = r->p->as;
	uint8_t region = code_regions_id(&r->ps->regions, m->path);
	while (r->at < as->v.n && as->v.v[r->at].end <= m->start)
		r->at++;
	for (size_t i = r->at; i < as->v.n && as->v.v[i].start < m->end; i++)
		if (!as->v.v[i].image)
			as->v.v[i].region = region;
}

uint8_t processes_region_at(struct processes *ps, struct process *p, uint64_t addr, int64_t now_ns)
{
	const struct mapping *m = process_mapping_at(p, addr);

	/* A program names its memory once it has mapped it, and no record tells. */
	if (m && !m->image && m->region == REGION_ANONYMOUS && (!p->regions_ns || now_ns - p->regions_ns > REGIONS_NS)) {
		struct maps_reading r = { .ps = ps, .p = p, .pid = p->pid };
		p->regions_ns = now_ns;
		ps->maps_reads++;
		if (!is_silent(p) && proc_reader_maps(p->pid, take_region, &r) == PROC_STUCK)
			fall_silent(p);
	}
	return m && !m->image ? m->region : REGION_ANONYMOUS;
}

const char *processes_region_name(const struct processes *ps, uint8_t region)
{
	return code_regions_name(&ps->regions, region);
}

uint64_t processes_maps_reads(const struct processes *ps)
{
	return ps->maps_reads;
}

/* --- the kernel's tables --- */

static bool is_queued(const struct processes *ps, const struct image *im)
{
	for (size_t i = 0; i < ps->preload.n; i++)
		if (ps->preload.v[i] == im)
			return true;
	return false;
}

static void want_preloaded(struct processes *ps, const struct process *p)
{
	for (unsigned i = 0; i < RUNTIME_KINDS; i++)
		if (p->runtimes[i] && !p->runtimes[i]->image->preloaded && !is_queued(ps, p->runtimes[i]->image))
			vec_push(&ps->preload, image_ref(p->runtimes[i]->image));
}

/* Some of it: samples wait. */
static void preload(struct processes *ps)
{
	unsigned calls = PRELOAD_AT_ONCE;
	size_t left = 0;

	for (size_t i = 0; i < ps->preload.n; i++) {
		struct image *im = ps->preload.v[i];
		if (!calls || !images_preload(ps->images, im, &calls))
			ps->preload.v[left++] = im;
		else
			image_unref(im);
	}
	ps->preload.n = left;
}

bool processes_have_more(const struct processes *ps)
{
	return ps->preload.n > 0;
}

static void push(struct processes *ps, struct process *p, int64_t now_ns)
{
	struct address_space *as = p->as, *before = p->pushed;

	if (!as->unwind)
		prepare_unwind(ps, p);
	if (!as->kernel_users) {
		if (!unwind_tables_maps_alloc(ps->tables, (uint32_t)as->v.n, &as->kernel_first))
			return;      /* no room: its samples stay deferred */
		memcpy(unwind_tables_maps(ps->tables) + as->kernel_first, as->unwind, as->v.n * sizeof *as->unwind);
	}
	if (process_runtimes_push(&ps->runtimes, p, now_ns))
		forget_info(p);
	want_preloaded(ps, p);
	as->kernel_users++;
	p->pushed = address_space_ref(as);
	p->set = ps->next_set++;
	struct unwind_proc v = { .tgid = p->pid, .set = p->set, .first = as->kernel_first, .n = (uint32_t)as->v.n,
				 .flags = unwind_tables_proc_flags(ps->tables) |
					  (p->fruitless >= FRUITLESS_MAX ? UNWIND_PROC_QUIET : 0) |
					  (process_runtimes_maps(p, RUNTIME_HOTSPOT) ? UNWIND_PROC_HOTSPOT : 0),
				 .exec_id = p->exec_id };
	p->in_kernel = kernel_procs_set(unwind_tables_procs(ps->tables), &v);
	if (before && --before->kernel_users == 0)
		unwind_tables_maps_free(ps->tables, before->kernel_first, (uint32_t)before->v.n);
	address_space_unref(before);
}

static void cool_down(struct processes *ps, int64_t now_ns)
{
	if (now_ns - ps->swept_ns < 10000000000ll)
		return;
	ps->swept_ns = now_ns;
	for (size_t i = 0; i < ps->all.n; i++) {
		struct process *p = ps->all.v[i];
		if (!p || !p->hot || now_ns - p->sampled_ns < COLD_NS)
			continue;
		leave_kernel(ps, p);
		p->hot = false;
	}
}

/* Opening the files of a process takes some time: of programs that start in great numbers not all are worth it. */
static void prepare_early(struct processes *ps, int64_t now_ns)
{
	if (now_ns - ps->early_ns >= 1000000000ll) {
		ps->early_ns = now_ns;
		ps->earlies = 0;
	}
	for (size_t i = 0; i < ps->early.n; i++) {
		struct process *p = find(ps, ps->early.v[i]);
		if (!p || !p->early)
			continue;
		p->early = false;
		if (p->dead || p->hot || ps->earlies >= EARLY_PER_S)
			continue;
		ps->earlies++;
		p->sampled_ns = now_ns;
		processes_prepare(ps, p);
	}
	ps->early.n = 0;
}

int64_t processes_due_ns(const struct processes *ps)
{
	return process_runtimes_due_ns(&ps->runtimes);
}

bool processes_finish_drain(struct processes *ps, int64_t now_ns)
{
	bool executed = ps->executed;

	ps->executed = false;
	prepare_early(ps, now_ns);
	for (size_t i = 0; i < ps->dirty.n; i++) {
		struct process *p = find(ps, ps->dirty.v[i]);
		if (!p)
			continue;
		p->dirty = false;
		if (p->hot && p->as && !p->dead && p->as->v.n)
			push(ps, p, now_ns);
	}
	ps->dirty.n = 0;
	preload(ps);                 /* once the kernel knows the processes */
	/* Those that ended a drain ago: samples of their last moments have arrived by now. */
	for (size_t i = 0; i < ps->gone.n; i++) {
		struct process *p = find(ps, ps->gone.v[i]);
		if (p && p->dead)
			drop(ps, p);
	}
	ps->gone.n = 0;
	for (size_t i = 0; i < ps->dead.n; i++)
		vec_push(&ps->gone, ps->dead.v[i]);
	ps->dead.n = 0;
	process_runtimes_tick(&ps->runtimes, now_ns);
	cool_down(ps, now_ns);
	return executed;
}
