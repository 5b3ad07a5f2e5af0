/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an index of debug information (a file of the cache that was damaged, or written by another). */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/dwarf_index.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "dwarfindex";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct dwarf_index x;
	struct err e;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, n) != (ssize_t)n || dwarf_index_open(&x, fd, &e)) {
		close(fd);
		return 0;
	}
	for (uint64_t at = 0; at < 0x2000; at += 0x100) {
		struct dwarf_frame f[32];
		struct buf text = { 0 };
		size_t frames = dwarf_index_lookup(&x, at, &text, f, 32);
		REQUIRE(frames <= 32, "%zu frames", frames);
		for (size_t i = 0; i < frames; i++)
			REQUIRE(f[i].name < text.len && f[i].file < text.len, "outside of the text");
		buf_free(&text);
	}
	dwarf_index_close(&x);
	return 0;
}
