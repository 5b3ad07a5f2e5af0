/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts records of 16 bytes by a 64-bit key, which is their first member: byte by byte, where the keys differ at all. For a few thousand
 * addresses of one file that takes three or four passes, and a quarter of what qsort takes. */
#ifndef PYRRHA_BASE_RADIX_H
#define PYRRHA_BASE_RADIX_H

#include <stddef.h>

#define RADIX_RECORD 16

/* records: n of RADIX_RECORD bytes, aligned as uint64_t. Records of the same key keep their order. Needs as much memory again for a moment. */
void radix_sort(void *records, size_t n);

#endif
