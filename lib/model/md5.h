/* SPDX-License-Identifier: Apache-2.0 */
/* MD5 (RFC 1321), for relabelling's hashmod, and nothing that needs to be secure. */
#ifndef PYRRHA_MODEL_MD5_H
#define PYRRHA_MODEL_MD5_H

#include <stddef.h>
#include <stdint.h>

void md5_sum(const void *p, size_t n, uint8_t out[16]);

#endif
