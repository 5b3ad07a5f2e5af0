/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Shared by the BPF programs and the agent: the records that leave the kernel, and the tables that enter it.
 *
 *	procs:   tgid -> a run of `maps` (the executable mappings of one address space, ascending by start); a process is in one
 *	         of PROC_PROBES slots from tgid % PROC_SLOTS on
 *	maps:    mapping -> image id and ELF virtual address of its start
 *	images:  image id -> its first text page, page count, and where its pages begin in `pages`
 *	pages:   4 KB of text -> row number and count in `chunks`, or that its rows were not needed yet
 *	chunks:  rows of 4 bytes, (pc & 4095) << 20 | rule, ascending; the first row of a page has pc 0 and
 *	         carries the rule in force at the start of the page
 *	rules:   how to get from a frame to its caller; those of RULE_NONE and RULE_UNREAD say why there is none. The number of a
 *	         rule that no row has any more is given to another rule after the cache was cleared
 *	cache:   image id << 29 | ELF virtual address (29 bits) of frames met lately, << 21 | their rule, in short (SHORT_*):
 *	         stacks share most of their frames, and a word here takes the place of those in pages, chunks and rules. Only
 *	         the sampling program writes it, whole words, and only for processes that say so
 *	runtime_procs: tgid and kind of runtime -> where that runtime keeps its frames (struct runtime_proc); only of processes
 *	         that run one
 *
 * A user frame is image << 48 | ELF virtual address. It has the same meaning for all processes, also after the process has ended.
 * Image 0 is code without a file (JIT): the address is the process's own. A frame of a language runtime is RUNTIME_WORDS words:
 * RUNTIME_IMAGE(kind) << 48 | where in the object (RUNTIME_AT_BITS; CPython: bytes from the code object to the instruction), the
 * object's address, and a word that tells the object from another one at that address later (0: it could not be read). */
#ifndef PYRRHA_BPF_ABI_H
#define PYRRHA_BPF_ABI_H

#include <linux/types.h>

/* Rare code is kept apart from the code of every frame: at 19 Hz the instructions themselves have to be fetched from memory. */
#define UW_LIKELY(x) __builtin_expect(!!(x), 1)
#define UW_RARELY(x) __builtin_expect(!!(x), 0)

#define MAX_CPUS 1024
#define MAX_USER_FRAMES 256
#define MAX_USER_WORDS (MAX_USER_FRAMES * RUNTIME_WORDS)
#define MAX_KERNEL_FRAMES 127
#define STACK_PAGE 4096
#define STACK_PAGES 32           /* this much of a stack is read: the rest of a deferred one */
#define STACK_PIECE_PAGES 5      /* in one record; with a page of room still below the 32 KB of a per-CPU value */
#define STACK_HOLE_PAGES 4       /* this many unreadable pages in a row are its end, fewer a frame that was never written */
#define PID_OUTSIDE 0x7fffffffu  /* of a process that the agent's pid namespace does not have */
#define PROC_SLOTS (1 << 14)
#define PROC_PROBES 8
#define MAPS_MAX (1 << 16)
#define IMAGES_MAX (1 << 14)
#define PAGES_MAX (1 << 18)
#define RULES_MAX (1 << 14)
#define RULE_CACHE 4032          /* 31.5 KB: values below 32 KB are on the kernel's large pages */
#define CHUNKS_MAX 1024          /* at most, with --unwind-memory: 256 MB of rows */
#define CHUNK_ROWS (1 << 16)
#define ROW_RULE_MASK 0xfffff
#define RULE_NONE 0              /* nothing tells of this code: frame pointers */
#define RULE_UNREAD 1            /* no table tells of this code, and its instructions were not read yet: a sample that meets it is deferred, and the agent reads them */
#define RULE_FIRST 2
#define ROW_PC_SHIFT 20
#define TEXT_PAGE_SHIFT 12

#define FRAME_IMAGE_SHIFT 48
#define FRAME_ADDR_MASK 0xffffffffffffull
#define IMAGE_JIT 0          /* no file behind the mapping */
#define IMAGE_FIRST 1

/* Language runtimes whose frames are walked. Their image numbers are above those of files. */
enum runtime_kind { RUNTIME_NONE, RUNTIME_PYTHON, RUNTIME_V8, RUNTIME_HOTSPOT, RUNTIME_KINDS };
#define RUNTIME_IMAGE_FIRST IMAGES_MAX
#define RUNTIME_IMAGE(kind) (RUNTIME_IMAGE_FIRST + (kind))
#define RUNTIME_WORDS 3
#define RUNTIME_AT_BITS 32
#define RUNTIME_PROCS_MAX 2048
/* Of the first word of a user frame. */
#define FRAME_IS_RUNTIME(f) (((f) >> FRAME_IMAGE_SHIFT) - RUNTIME_IMAGE_FIRST - 1 < RUNTIME_KINDS - 1)
#define FRAME_RUNTIME(f) ((enum runtime_kind)(((f) >> FRAME_IMAGE_SHIFT) - RUNTIME_IMAGE_FIRST))
#define FRAME_WORDS(f) (FRAME_IS_RUNTIME(f) ? RUNTIME_WORDS : 1)
/* In that word of a runtime's frame, above `at`: */
#define RUNTIME_REST (1ull << 33) /* of a stack that the agent finishes: it belongs to a native frame that comes later. All such come last */
#define RUNTIME_ENTRY (1ull << 34) /* then: not a frame, but the end of those of one native frame. The object is an address inside of it;
				    0: it is the next one; RUNTIME_ALL: there are no more */
#define RUNTIME_ALL (~0ull)
#define RUNTIME_CUT (1ull << 32)   /* frames are missing here, because the runtime's own structures lead nowhere */

/* Why a stack ends where it does. */
enum stack_end {
	END_BOTTOM,          /* complete */
	END_DEPTH,           /* more than MAX_USER_FRAMES */
	END_NO_PROCESS,      /* deferred: the process is not in the kernel's tables yet */
	END_NO_MAPPING,      /* deferred: the address is in no mapping known yet */
	END_NO_TABLE,        /* deferred: the table of this part of the image is not loaded yet */
	END_UNSUPPORTED,     /* a rule the table cannot express */
	END_STACK_READ,      /* the stack could not be read there */
	END_BAD_FRAME,       /* what cannot be a frame pointer or a return address */
	END_NO_PROGRESS,     /* the caller's frame is not above */
	END_COMPAT,          /* a 32-bit process */
	END_STALE,           /* unwound with mappings that were others by then */
	END_COPY_ENDED,      /* deferred, and the copied piece of stack was too short */
	END_UNMAPPED,        /* in no mapping of the process, also after looking again */
	END_COSTLY,          /* off-CPU only: no stack was taken, the CPU's budget for stacks was used up */
	END_EVICTED,         /* off-CPU only: others took the place where the stack was kept */
	END_OUTSIDE,         /* nothing is known: the process is outside of the agent's pid namespace */
	/* Of the agent alone, for stacks that the sampling program ended with END_NO_TABLE: */
	END_TABLES_FULL,     /* there was no room for the table of this part of the image */
	END_NOT_BUILT,       /* the table was not built in time: the process had ended, or code of a language runtime follows that only the kernel walks */
	END_CODES_
};

/* How the canonical frame address comes about. */
enum cfa_kind {
	CFA_NONE,            /* no table for this address: try the frame pointer */
	CFA_SP,              /* sp + off */
	CFA_FP,              /* fp + off */
	CFA_DEREF_SP,        /* *(sp + off) + add */
	CFA_DEREF_FP,        /* *(fp + off) + add */
	CFA_PLT,             /* sp + 8 + ((pc & 15) >= off ? 8 : 0) */
	CFA_SIGNAL,          /* a signal frame is at sp */
	CFA_STOP,            /* the outermost frame */
	CFA_UNSUPPORTED,
	CFA_UNREAD           /* of RULE_UNREAD only */
};

/* Where the caller's frame pointer is. */
enum fp_kind {
	FP_SAME,
	FP_AT_CFA,           /* *(cfa + off) */
	FP_AT_FP,            /* *(fp + off) */
	FP_UNKNOWN           /* not recoverable: later CFA_FP rows cannot be used */
};

/* Where the return address is. Rules of x86-64 have it at cfa - 8. In the few instructions of vfork, which must not leave it on a stack that two
 * processes share, it is in the register where the C library keeps it. An architecture with a link register (arm64) uses RA_IN_LR for code that
 * has not saved it yet, which is possible only in the innermost frame and in one that a signal interrupted,
 * and puts its offset in cfa_add otherwise, where no CFA_DEREF needs that (its CFA is sp or fp plus cfa_off; its table
 * has no other). Its registers go into struct unwind beside ip, sp, fp; how rules are applied is one file per
 * architecture, unwind_ARCH.h, as is the reading of registers in the sampling program. */
enum ra_kind {
	RA_CFA_8,            /* at cfa - 8 */
	RA_IN_LR,
	RA_CFA_ADD,          /* at cfa + cfa_add */
	RA_IN_RDI,           /* glibc; of the innermost frame only, like the next */
	RA_IN_RDX            /* musl */
};

struct unwind_rule {
	__u8 cfa, fp, ra;      /* ra: enum ra_kind */
	__u8 runtime;          /* enum runtime_kind whose interpreter this code is: its frames are walked, too */
	__s32 cfa_off, fp_off, cfa_add;
};

/* A rule in 21 bits: most say sp or fp plus a small offset, and that the caller's fp is at cfa - 8 k or the same. */
#define SHORT_BITS 21
#define SHORT_IS_RULE (1u << 20)     /* else it is the number of the rule */
#define SHORT_CFA_FP (1u << 19)      /* else sp */
#define SHORT_FP_SHIFT 14            /* k, 0: the same */
#define SHORT_FP_MAX 31
#define SHORT_CFA_MAX 0x3fff         /* offset / 8 */
#define SHORT_STOP SHORT_IS_RULE     /* the outermost frame; as a rule it would be a frame of no size */

struct unwind_map {
	__u64 start;         /* page-aligned */
	__u64 vaddr;         /* ELF virtual address that is mapped at start */
	__u32 n_pages;
	__u32 image;
};

struct unwind_image {
	__u32 first_page;    /* ELF virtual address >> 12 of pages[] 0 */
	__u32 n_pages;       /* 0: no table */
	__u32 pages;         /* index into `pages` */
	__u32 flags;
};
#define UNWIND_IMAGE_LOADED 1 /* its pages are there, if not all of their rows; or there is no table to have */
#define UNWIND_IMAGE_GO 2     /* frame pointers lead from one stack to another (runtime.systemstack) */

/* One word, so that it is read in one piece: row number (chunk << 16 | index) << 32 | count. */
#define PAGE_OF(row, n) ((__u64)(row) << 32 | (n))
#define PAGE_ROW(p) ((__u32)((p) >> 32))
#define PAGE_ROWS(p) ((__u32)(p))
#define PAGE_UNLOADED 0xffffffffull  /* a count that none has */

/* Two lie in a cache line. */
struct unwind_proc {
	__u32 tgid;          /* 0: the slot is free */
	__u32 set;           /* which edition of the mappings; 0 = the entry is being written */
	__u32 first, n;      /* in maps[] */
	__u32 flags;
	__u32 exec_id;       /* of the program these are the mappings of, or EXEC_ANY; after another exec they are void */
	__u32 pad[2];
};
#define EXEC_ANY 0xffffffffu  /* the agent has seen no sample of the process yet: entries are of whatever it runs */
#define UNWIND_PROC_QUIET 1   /* do not ask for help with unknown addresses */
#define UNWIND_PROC_CACHED 2  /* the cache of rules may be used */
#define UNWIND_PROC_HOTSPOT 4 /* it maps a HotSpot: code without a file may be its */

struct runtime_key {
	__u32 tgid;
	__u32 kind;          /* enum runtime_kind */
};

#define PYTHON_EDGES_MAX 8

/* Where CPython keeps its frames: offsets in bytes, as agent/python/layout.h has them. The version says which of them there are. */
struct python_proc {
	__u64 key_at;        /* address of the pthread key of the thread state, a u32; 0: it is in thread-local storage */
	__s64 tls_offset;    /* then: of the pointer to the thread state, from fsbase */
	__u64 none_at;       /* 3.13+: address of None, which stands for code in frames that are no calls */
	__u8 minor;
	__u8 pad[3];
	__u16 tstate_frame, tstate_cframe, cframe_frame, cframe_previous;
	__u16 frame_code, frame_back, frame_instr, frame_entry, frame_owner;
	__u16 code_check;    /* of 8 bytes that tell a code object from another one at its address; 3.11+: the upper 4 are its first line */
	struct {
		__u64 start, end;
	} edges[PYTHON_EDGES_MAX]; /* ELF virtual addresses of the eval function where a call has no frame yet, or none any more */
};

#define HOTSPOT_HEAPS 4
/* What a frame of HotSpot is, in the top byte of its check word; the rest tells the object from a later one at its address. */
#define HOTSPOT_COMPILED 1       /* compile id */
#define HOTSPOT_INTERPRETED 2    /* address of the ConstMethod; 0 = not read */
#define HOTSPOT_STUB 3           /* first four letters of its name */
#define HOTSPOT_CHECK(sort, value) ((__u64)(sort) << 56 | ((value) & 0xffffffffffffffull))
#define HOTSPOT_NO_BCI 0xffff    /* `at` of an interpreted frame: not known */

/* A heap of the code cache: what is reserved for it, and its map of segments. */
struct hotspot_heap {
	__u64 start, bytes, segmap;
};

/* Where HotSpot has its code, and offsets in bytes of what describes it (agent/hotspot/layout.h). */
struct hotspot_proc {
	struct hotspot_heap heap[HOTSPOT_HEAPS]; /* unused: bytes 0 */
	__u64 low, high;     /* all heaps lie between */
	__u8 segment_shift, block_header;
	__u8 relative;       /* places in a CodeBlob are 32-bit offsets from it, not pointers */
	__u8 bcp_slot;       /* of an interpreted frame: 0 = at rbp - 64, 1 = at rbp - 56 */
	__u16 blob_name, blob_code_begin, blob_code_end, blob_frame_size, blob_frame_complete;
	__u16 nmethod_compile_id, nmethod_orig_pc, nmethod_deopt, nmethod_deopt_mh;
	__u16 method_const, const_method_size;
};

/* Where V8's frames are in its text, and what tells its objects apart; offsets in bytes from the object's begin. */
struct v8_proc {
	__u64 handlers, handlers_bytes;     /* bytecode handlers, ELF virtual address */
	__u64 trampoline, trampoline_bytes; /* what enters the interpreter */
	__u64 deoptimising, deoptimising_bytes; /* what leaves optimised code */
	__u16 function_shared, shared_lengths, map_type;
	__u16 function_first, function_last, array_type; /* types of JSFunctions, and of bytecode arrays */
	__u16 deoptimiser_caller;    /* of a Deoptimizer, in bytes: where the caller's frame begins, then its fp and pc */
};

/* The object of a frame: in the top byte what it is, below its address. */
#define V8_FUNCTION 1                /* SharedFunctionInfo, tagged */
#define V8_CODE 2                    /* pc in compiled code */
#define V8_CODE_LEAF 3               /* the same of the innermost frame, which may not be set up */
#define V8_MARKER 4                  /* number of a sort of frame that is no function's */
#define V8_MARKERS_MAX 64
#define V8_OBJECT(sort, v) ((__u64)(sort) << 56 | ((v) & 0xffffffffffffffull))
#define V8_OBJECT_SORT(o) ((o) >> 56)
#define V8_OBJECT_AT(o) ((o) & 0xffffffffffffffull)
/* Checks: of a function, its lengths and the distance to its name in the source; of code, 16 bits of the 8 bytes there, and the tagged
 * SharedFunctionInfo that the frame is one of (0: none). */
#define V8_CHECK_READ (1ull << 63)
#define V8_CHECK_FUNCTION(lengths) (V8_CHECK_READ | ((lengths) & 0xffffffffffffull))
#define V8_HASH(bytes) (((bytes) * 0x9e3779b97f4a7c15ull) >> 48)
#define V8_CHECK_CODE(bytes, shared) (V8_HASH(bytes) << 48 | (shared))
#define V8_CHECK_SHARED(c) ((c) & 0xffffffffffffull)
#define V8_CHECK_HASH(c) ((c) >> 48)
#define V8_SHARED_DATA 8             /* of a SharedFunctionInfo: its code in some form; a small integer of builtins */

/* Of another exec_id than the process's, and not EXEC_ANY: void. */
struct runtime_proc {
	__u32 exec_id;
	__u32 flags;
	union {
		struct python_proc python;
		struct hotspot_proc hotspot;
		struct v8_proc v8;
		__u64 room[32];
	};
};
#define RUNTIME_YOUNG 1       /* its samples wake the agent at once, so that names are read while it lives */

#define SAMPLE_DEFERRED 1     /* the stack goes on at ip, sp, fp; pages of it follow the frames */
#define SAMPLE_IN_KERNEL 2
#define SAMPLE_KERNEL_THREAD 4
#define SAMPLE_RA 8           /* ip of a deferred sample is a return address already stepped back by one */
#define SAMPLE_CODE 16        /* code[] is set */
#define SAMPLE_IN_EXEC 64     /* in execve: the stack is the old program's, if it is still there */
#define SAMPLE_PREEMPTED 128  /* off-CPU: it was in user mode and runnable; it has no kernel stack to report */
#define SAMPLE_NO_COPY 256    /* deferred, but its stack was left out, because the ring was filling up */
#define SAMPLE_MORE 32        /* no sample, but more of the stack of the one with this time and CPU */

#define UW_CODE 8

struct sample_head {
	__u64 time_ns;       /* CLOCK_MONOTONIC; off-CPU: when the thread came back */
	__u64 off_ns;        /* 0: a tick of the CPU's clock. Else the stack is that of a thread that left the CPU this
				long before time_ns */
	union {
		__u64 cost_ns;       /* a tick: what the sampling program has taken on this CPU, by clock readings, before it */
		__u64 runnable_ns;   /* a wait: of off_ns, while the thread could have run, had a CPU been free */
	};
	__u64 cgroup_id;
	__u64 ip, sp, fp;    /* where unwinding stands; of END_COSTLY, ip: how many waits off_ns is the sum of */
	__u32 pid, tid;      /* as user space calls them */
	__u16 cpu;           /* below MAX_CPUS */
	__u16 user_words;
	__u32 set;           /* of unwind_proc; 0 = none was known */
	__u32 exec_id;       /* how many programs the process ran before this one, the parent's included */
	__u32 stack_pages;   /* bit i: page i, counted from the page of sp, is here */
	__u16 n_user, n_kernel; /* frames */
	__u16 end;           /* enum stack_end */
	__u16 flags;
	char comm[16];       /* of the thread */
	__u8 code[UW_CODE];  /* of a deferred sample: the bytes at ip - 1 */
	/* u64 user[user_words], kernel[n_kernel], u8 stack[STACK_PAGE each] */
};

/* Each CPU's own ring, for records without pieces of stack: the kernel's ring buffer takes a lock and touches memory in
 * five places for each. A record is 8 bytes that say how many follow, and those; they are written last, on a ring that the
 * agent has filled with 0 again. No record is split: where one of the largest size would not fit any more, CPU_RING_SKIP
 * stands, and the next one is at the ring's beginning. Records without room go the other way, as do waits in great number. */
#define CPU_RING_BYTES (1 << 14)
#define CPU_RECORD_MAX (sizeof(struct sample_head) + (MAX_USER_WORDS + MAX_KERNEL_FRAMES) * 8)
#define CPU_RING_SKIP 1

struct cpu_ring {
	__u64 taken;         /* bytes that the agent is done with, counted from the start; only it writes here */
	__u64 pad[7];
	__u8 b[CPU_RING_BYTES];
};

/* Filtered samples. A kind's entries name what is kept or dropped; what has none is kept, unless the kind is one of control.only. A
 * control group without an entry uses its nearest ancestor's. */
enum filter_kind { FILTER_CGROUP, FILTER_PID, FILTER_COMM, FILTER_KINDS };
/* FILTER_DROP_SELF: a control group, but not those below it. */
enum filter_verdict { FILTER_NONE, FILTER_KEEP, FILTER_DROP, FILTER_DROP_SELF };
#define FILTER_CGROUPS_MAX 4096
#define FILTER_PIDS_MAX 1024
#define FILTER_COMMS_MAX 256
#define CGROUP_DEPTH_MAX 16

/* Off pure v2 a control group is known by its id in the memory controller's hierarchy, with that hierarchy's number in
 * the top byte; on pure v2 by its id. */
#define CGROUP_HIERARCHY_SHIFT 56

/* Settings that the agent changes while the programs run. */
struct control {
	__u32 filters;       /* 1 << kind: it has entries */
	__u32 only;          /* 1 << kind: what has no entry is dropped */
	__u32 runtimes;      /* edition of runtime_procs: what a CPU has copied of an older one is void */
	__u32 pad;
	__u64 off_threshold_ns; /* shorter waits are counted and not reported */
	__u64 off_from_ns;   /* waits that began before are not known well */
	__u64 off_share;     /* of each CPU that watching waits may cost, in 1/2^20 */
};

#define OFF_THREADS_MAX (1 << 15)
#define OFF_SMALL_MAX (1 << 13)
#define OFF_BIG_MAX 256
#define OFF_COPY_PAGES 3         /* of a stack that the agent has to finish */
#define OFF_SMALL_WORDS 64       /* user and kernel together */
#define OFF_BURST_NS 20000000ull /* what a CPU may spend on stacks at once */
#define OFF_TELL_NS 250000000ull /* the sum of a thread's waits without a stack is reported at most this often */
#define OFF_COMPARE_NS 10000000ull /* so often a CPU compares the clock of its queue with ours */
#define OFF_LEVELS 10            /* of the lower half of that; the lower, the more a stack must be worth, by the thread's */
#define OFF_LEAST_US 256         /* last wait of the kind: so much at the highest, twice as much at each next one */

/* What uw_step comes to, besides an enum stack_end. */
#define UW_STEP_ON (-1)      /* there may be a caller */
#define UW_NO_CODE (-2)      /* uw_step_code: no runtime is known that made this code */
/* Frames of a runtime are ahead, and whoever calls uw_step walks them: those that a native frame runs; a frame of code that it made. */
#define UW_AHEAD (-3)
#define UW_IN_CODE (-4)

/* The state of an unwinding, and its last mapping. */
struct unwind {
	__u64 ip, sp, fp;
	__u64 start, size, vaddr;  /* of the mapping it was in last; size 0 = none */
	__u32 image;
	__u32 first_map, n_maps;   /* the process's */
	__u32 n, words;            /* frames kept, and words of them */
	__u32 is_ra, fp_unknown;   /* 0 or 1 */
	__u32 quiet;               /* finish with what is known */
	__u32 cached;              /* the rule cache may be used */
	__u32 ahead;               /* UW_AHEAD, UW_IN_CODE: enum runtime_kind, as far as it is known */
	__u32 hotspot;             /* the process may have code of HotSpot's */
	__u64 native;              /* then: the native frame's word; 0 = code without a file */
	__u64 rdi, rdx;            /* of a thread that is in the kernel; 0 = not known */
	__u64 r13;                 /* of the innermost frame; 0 = not known */
};

/* Not counted for an ordinary sample: its record has everything. */
enum agent_stat {
	STAT_RING_FULL,      /* samples lost because the ring had no room */
	STAT_DEFERRED,
	STAT_FILTERED,       /* ticks, + enum filter_kind: not taken because of a filter */
	STAT_FILTERED_LAST = STAT_FILTERED + FILTER_KINDS - 1,
	STAT_OFF_SWITCHES,   /* of any thread */
	STAT_OFF_EVENTS,     /* waits reported */
	STAT_OFF_STACKS,     /* stacks taken, reported or not */
	STAT_OFF_SHORT,      /* waits below the threshold */
	STAT_OFF_SHORT_NS,
	STAT_OFF_FILTERED,   /* times a thread left the CPU unwatched because of a filter */
	STAT_OFF_NO_THREAD,  /* the same, because too many threads are watched already */
	STAT_OFF_RING_FULL,  /* waits lost because the ring had no room */
	STAT_OFF_RING_NS,
	STAT_OFF_COST_NS,    /* clock readings around the off-CPU program */
	STAT_OFF_WORK_NS,    /* of that, where a stack was taken or a wait reported */
	STATS_MAX
};

#endif
