/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target is: a name, which is also its folder of seeds in tests/fuzz/corpus/, and libFuzzer's function. Built
 * with libFuzzer when configured --enable-fuzz; always built with replay.c, which feeds it its seeds as a test. */
#ifndef PYRRHA_TESTS_FUZZ_H
#define PYRRHA_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/attrs.h"

extern const char fuzz_target[];
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A property that must hold whatever the input. */
#define REQUIRE(cond, ...) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: not %s: ", __FILE__, __LINE__, #cond); \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr); \
		abort(); \
	} \
} while (0)

#endif
