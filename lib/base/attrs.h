/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes under names of our own, so that they are spelt once. */
#ifndef PYRRHA_BASE_ATTRS_H
#define PYRRHA_BASE_ATTRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs fn(&variable) when the variable leaves its scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define PRINTF_LIKE(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))
#define MUST_USE __attribute__((warn_unused_result))
/* For a call whose failure changes nothing; a comment beside it says why. */
#define IGNORE(call) ((void)!(call))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
/* For a large local array or struct on a hot path whose users never read what was not written: it is not zeroed, as all other
 * variables are (-ftrivial-auto-var-init). */
#if defined(__has_attribute) && __has_attribute(uninitialized)
#define UNINITIALIZED __attribute__((uninitialized))
#else
#define UNINITIALIZED
#endif
/* For the rare part of a hot function: locals whose address is passed on bring a stack guard, which the usual way then does without. */
#define NOINLINE __attribute__((noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Each argument is evaluated once; not for constants outside of functions. The comparison that never runs makes the compiler
 * warn of signs that differ, as it would of the plain one. */
#define MIN(a, b) CHOOSE_(a, b, <, PASTE_(min_a_, __COUNTER__), PASTE_(min_b_, __COUNTER__))
#define MAX(a, b) CHOOSE_(a, b, >, PASTE_(max_a_, __COUNTER__), PASTE_(max_b_, __COUNTER__))
#define CHOOSE_(a, b, op, x, y)                                                                                                \
	({                                                                                                                     \
		__typeof__(1 ? (a) : (b)) x = (a), y = (b);                                                                    \
		if (0)                                                                                                         \
			(void)((a) op (b));                                                                                    \
		x op y ? x : y;                                                                                                \
	})
#define PASTE_(a, b) PASTE_2_(a, b)
#define PASTE_2_(a, b) a##b

/* Hands ownership over: yields the pointer and leaves NULL behind. */
#define TAKE_PTR(p) ({ __typeof__(p) taken_ = (p); (p) = NULL; taken_; })

#endif
