/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts records of 16 bytes by their first member, a 64-bit key. There is one pass for each byte in which the keys differ. A few thousand
 * addresses of one file need three or four passes, a quarter of qsort's time. */
#ifndef PYRRHA_BASE_RADIX_H
#define PYRRHA_BASE_RADIX_H

#include <stddef.h>

#define RADIX_RECORD 16

/* records: n of RADIX_RECORD bytes, aligned as uint64_t. Records of the same key keep their order. Allocates as much memory again while it sorts. */
void radix_sort(void *records, size_t n);

#endif
