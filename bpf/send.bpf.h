/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Sends a record from the kernel: by the CPU's own ring, or by the kernel's ring buffer if it has pieces of the stack or finds no
 * room. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_SEND_BPF_H
#define PYRRHA_BPF_SEND_BPF_H

#define RING_ASK_BYTES 2048          /* a CPU's share of the ring is 64 KB */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);      /* the loader says how many CPUs there are */
	__type(key, __u32);
	__type(value, struct cpu_ring);
} cpu_rings SEC(".maps");

/* Puts the record in the CPU's own ring. False: it is not a record for that, or there is no room. On x86, stores are seen in the order
 * in which they were written. */
static __always_inline bool send_short(struct scratch *s, __u64 bytes)
{
	__u64 at = s->out_at, off = at & (CPU_RING_BYTES - 1), skip = 0;
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *r;

	if (bytes > CPU_RECORD_MAX)
		return false;
	r = bpf_map_lookup_elem(&cpu_rings, &cpu);
	if (!r)
		return false;
	if (UW_RARELY(off > CPU_RING_BYTES - 8 - CPU_RECORD_MAX))
		skip = CPU_RING_BYTES - off;
	if (UW_RARELY(at + skip + 8 + bytes > s->out_end)) {
		s->out_end = *(const volatile __u64 *)&r->taken + CPU_RING_BYTES;
		if (at + skip + 8 + bytes > s->out_end)
			return false;
	}
	if (UW_RARELY(skip)) {
		UW_OPAQUE(off);
		off &= CPU_RING_BYTES - 8;
		*(volatile __u64 *)(r->b + off) = CPU_RING_SKIP;
		off = 0;
	}
	UW_OPAQUE(off);
	UW_OPAQUE(bytes);
	if (off > CPU_RING_BYTES - 8 - CPU_RECORD_MAX || bytes > CPU_RECORD_MAX)
		return false;
	if (bpf_probe_read_kernel(r->b + off + 8, bytes, &s->head))
		return false;
	*(volatile __u64 *)(r->b + off) = bytes;
	s->out_at = at + skip + 8 + bytes;
	return true;
}

/* False: the ring is full. */
static __always_inline bool send(struct scratch *s, __u64 bytes)
{
	__u64 flags = BPF_RB_NO_WAKEUP;

	bytes += sizeof s->head;
	if (UW_RARELY(s->wake))
		flags = BPF_RB_FORCE_WAKEUP;
	else if (UW_LIKELY(send_short(s, bytes)))
		return true;
	s->unasked += bytes;
	if (UW_RARELY(s->unasked >= RING_ASK_BYTES)) {
		s->unasked = 0;
		if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > knobs.ring_wakeup_bytes)
			flags = BPF_RB_FORCE_WAKEUP;
	}
	UW_OPAQUE(bytes);
	if (bytes > sizeof s->head + BODY_BYTES)
		bytes = sizeof s->head + BODY_BYTES;
	return bpf_ringbuf_output(&ring, &s->head, bytes, flags) == 0;
}

static __always_inline void send_sample(struct scratch *s, __u64 bytes)
{
	if (!send(s, bytes) && !(s->head.flags & SAMPLE_MORE))
		count(STAT_RING_FULL, 1);
}

/* The stack of a deferred sample, page i from the page of sp; 1 = that was the last. Pages without room in the record go into further
 * records, unless the ring is filling up. A global function, as unwind_some. */
__attribute__((noinline)) int copy_page(int i)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	__u64 to;

	if (!s)
		return 1;
	if (s->pages == STACK_PIECE_PAGES) {
		send_sample(s, s->before + STACK_PIECE_PAGES * STACK_PAGE);
		s->head.flags = SAMPLE_MORE;
		s->head.n_user = s->head.user_words = s->head.n_kernel = 0;
		s->head.stack_pages = s->before = s->pages = 0;
		if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > knobs.ring_wakeup_bytes)
			return 1;
	}
	to = s->before + (__u64)s->pages * STACK_PAGE;
	UW_OPAQUE(to);
	if (to > BODY_BYTES)
		return 1;
	if ((__u32)i == s->end)
		return 1;
	if (bpf_probe_read_user(s->body + to, STACK_PAGE, (const void *)((s->u.sp & ~(STACK_PAGE - 1ull)) + (__u64)i * STACK_PAGE)))
		return ++s->misses == STACK_HOLE_PAGES && s->end > STACK_PAGES;
	s->head.stack_pages |= 1u << (i & 31);
	s->misses = 0;
	s->pages++;
	return 0;
}

/* Before the stack's pages are copied, behind `before` bytes of the record: where they are to end. */
static __always_inline void begin_copy(struct scratch *s, __u32 before)
{
	struct task_struct *t = (struct task_struct *)bpf_get_current_task();
	__u64 left = BPF_CORE_READ(t, mm, start_stack) / STACK_PAGE - s->u.sp / STACK_PAGE;

	s->before = before;
	s->pages = s->misses = 0;
	s->end = left < STACK_PAGES ? left + 1 : STACK_PAGES + 1;
}

/* Sends the record, whose frames take up `before` bytes, with the stack page by page, because one read of everything would be refused
 * as a whole. If the agent does not keep up, the second half of the ring is for records without stacks: they are a fiftieth of the
 * size, and say at least which process it was, and where. */
static __always_inline void send_with_stack(struct scratch *s, __u32 before)
{
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > 2ull * knobs.ring_wakeup_bytes) {
		s->head.flags |= SAMPLE_NO_COPY;
		send_sample(s, before);
		return;
	}
	begin_copy(s, before);
	for (int i = 0; i < STACK_PAGES; i++)
		if (copy_page(i))
			break;
	if (s->pages || !(s->head.flags & SAMPLE_MORE))
		send_sample(s, s->before + (__u64)s->pages * STACK_PAGE);
}

#endif
