/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How a rule is applied on x86-64: sp is rsp, fp is rbp, the return address is at cfa - 8. Part of unwind.h. */

#define UW_USER_END 0x800000000000ull
#define UW_FRAME_MAX (64u << 20)     /* a frame-pointer chain that jumps further is not one */
/* In the kernel's frame for a handler, sp points to struct ucontext once the handler has returned. From there to rbp of its registers,
 * which continue with rbx, rdx, rax, rcx, rsp, rip. */
#define UW_SIGNAL_RBP 120

/* To the caller whose return address is ra; cfa is its stack pointer. */
static __always_inline int uw_to_caller(struct unwind *u, __u64 cfa, __u64 ra)
{
	if (UW_RARELY(!ra))
		return END_BOTTOM;
	if (UW_RARELY(ra >= UW_USER_END))
		return END_BAD_FRAME;
	u->sp = cfa;
	u->ip = ra - 1;
	u->is_ra = 1;
	return UW_STEP_ON;
}

/* Without a table, the first and the last instructions of a function are where rbp is still, or again, the caller's: its
 * frame would be passed over. Judging by the next instruction, how far above sp the return address is; -1: the frame is set up, or
 * there is none. */
static __always_inline int uw_without_frame(struct unwind *u)
{
	__u8 c[UW_CODE];             /* c[1] is the byte at ip */

	if (u->is_ra || u->n != 1 || uw_code(u, c))
		return -1;
	if (c[1] == 0x55 || c[1] == 0xc3 || c[1] == 0xc2)                          /* push rbp; ret */
		return 0;
	if (c[1] == 0xf3 && (c[2] == 0xc3 || (c[2] == 0x0f && c[3] == 0x1e)))      /* rep ret; endbr64 */
		return 0;
	if (c[1] == 0x89 && c[2] == 0x84 && c[3] == 0x24 && c[7] & 0x80)           /* mov [rsp - big], eax: HotSpot */
		return 0;
	if (c[0] == 0x55 && c[1] == 0x48 && ((c[2] == 0x89 && c[3] == 0xe5) || (c[2] == 0x8b && c[3] == 0xec)))
		return 8;                                                          /* mov rbp, rsp after push rbp */
	return -1;
}

/* Whether frame pointers of the last mapping's code may lead anywhere. */
static __always_inline bool uw_stacks_change(struct unwind *u)
{
	const struct unwind_image *im = u->image == IMAGE_JIT ? 0 : uw_image_here(u);

	return im && im->flags & UNWIND_IMAGE_GO;
}

static __always_inline int uw_by_frame_pointer(struct unwind *u)
{
	__u64 frame[2];
	int above = uw_without_frame(u);

	if (above >= 0) {
		if (uw_read(u, frame, 8, u->sp + above))
			return END_STACK_READ;
		if (above && uw_read(u, &u->fp, 8, u->sp))
			return END_STACK_READ;
		return uw_to_caller(u, u->sp + above + 8, frame[0]);
	}
	if (UW_RARELY(u->fp_unknown))
		return END_UNSUPPORTED;
	if (!u->fp) /* threads begin in files: in code without one it is a register like others */
		return u->image == IMAGE_JIT ? END_BAD_FRAME : END_BOTTOM;
	if (u->fp & 7 || u->fp >= UW_USER_END)
		return END_BAD_FRAME;
	if (UW_RARELY(u->fp < u->sp || u->fp - u->sp > UW_FRAME_MAX) && !uw_stacks_change(u))
		return END_BAD_FRAME;
	if (uw_read(u, frame, sizeof frame, u->fp))
		return END_STACK_READ;
	__u64 cfa = u->fp + 16;
	u->fp = frame[0];
	u->fp_unknown = 0;
	return uw_to_caller(u, cfa, frame[1]);
}

static __always_inline int uw_by_signal_frame(struct unwind *u)
{
	__u64 regs[7];

	if (uw_read(u, regs, sizeof regs, u->sp + UW_SIGNAL_RBP))
		return END_STACK_READ;
	if (!regs[6] || regs[6] >= UW_USER_END)
		return END_BAD_FRAME;
	u->fp = regs[0];
	u->sp = regs[5];
	u->ip = regs[6];
	u->is_ra = 0;
	u->fp_unknown = 0;
	return UW_STEP_ON;
}

/* uw_by_rule for a rule that has a short form, which nearly all frames have. */
static __always_inline int uw_by_short(struct unwind *u, __u32 code)
{
	__u64 cfa = u->sp, ra;
	__u32 k = code >> SHORT_FP_SHIFT & SHORT_FP_MAX;

	if (code & SHORT_CFA_FP) {
		if (UW_RARELY(u->fp_unknown))
			return END_UNSUPPORTED;
		cfa = u->fp;
	}
	cfa += (code & SHORT_CFA_MAX) * 8ull;
	if (UW_RARELY(cfa <= u->sp)) /* the stop among them: each stack has one, and no line of code or table more for it */
		return code == SHORT_STOP ? END_BOTTOM : END_NO_PROGRESS;
	if (UW_RARELY(uw_read(u, &ra, 8, cfa - 8)))
		return END_STACK_READ;
	if (k) {
		if (UW_RARELY(uw_read(u, &u->fp, 8, cfa - 8ull * k)))
			return END_STACK_READ;
		u->fp_unknown = 0;
	}
	return uw_to_caller(u, cfa, ra);
}

/* To the caller of a function that has popped its return address into a register. */
static __always_inline int uw_by_register(struct unwind *u, const struct unwind_rule *r, __u64 cfa)
{
	__u64 ra = r->ra == RA_IN_RDI ? u->rdi : u->rdx;

	if (u->n != 1 || !ra || r->fp != FP_SAME)
		return END_UNSUPPORTED;
	return cfa < u->sp ? END_NO_PROGRESS : uw_to_caller(u, cfa, ra);
}

static __always_inline int uw_by_rule(struct unwind *u, const struct unwind_rule *r)
{
	__u64 cfa, ra, at;

	switch (r->cfa) {
	case CFA_SP:
		cfa = u->sp + (__s64)r->cfa_off;
		break;
	case CFA_FP:
		if (u->fp_unknown)
			return END_UNSUPPORTED;
		cfa = u->fp + (__s64)r->cfa_off;
		break;
	case CFA_DEREF_SP:
	case CFA_DEREF_FP:
		if (r->cfa == CFA_DEREF_FP && u->fp_unknown)
			return END_UNSUPPORTED;
		at = (r->cfa == CFA_DEREF_SP ? u->sp : u->fp) + (__s64)r->cfa_off;
		if (uw_read(u, &cfa, 8, at))
			return END_STACK_READ;
		cfa += (__s64)r->cfa_add;
		break;
	case CFA_PLT:
		/* u->ip of a caller is one less than the address for the rule. */
		cfa = u->sp + 8 + (((u->ip + u->is_ra) & 15) >= (__u32)r->cfa_off ? 8 : 0);
		break;
	case CFA_SIGNAL:
		return uw_by_signal_frame(u);
	case CFA_STOP:
		return END_BOTTOM;
	default:
		return END_UNSUPPORTED;
	}
	if (UW_RARELY(r->ra >= RA_IN_RDI))
		return uw_by_register(u, r, cfa);
	if (cfa <= u->sp)
		return END_NO_PROGRESS;
	if (uw_read(u, &ra, 8, cfa - 8))
		return END_STACK_READ;
	if (r->fp == FP_AT_CFA || r->fp == FP_AT_FP) {
		at = (r->fp == FP_AT_CFA ? cfa : u->fp) + (__s64)r->fp_off;
		if (uw_read(u, &u->fp, 8, at))
			return END_STACK_READ;
		u->fp_unknown = 0;
	} else if (r->fp == FP_UNKNOWN) {
		u->fp_unknown = 1;
	}
	return uw_to_caller(u, cfa, ra);
}
