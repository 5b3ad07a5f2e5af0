/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as /proc/kallsyms. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/names/kallsyms.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "kallsyms";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char path[64];
	struct kallsyms k;
	struct err e = { 0 };
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && write(fd, data, n) == (ssize_t)n) {
		int rc = kallsyms_load(&k, path, &e);
		REQUIRE(rc == 0 || e.code, "an error without a code");
		static const uint64_t some[] = { 0, 1, 0xffffffff81000000, 0xffffffffc0000010, UINT64_MAX };
		for (size_t i = 0; !rc && i < ARRAY_LEN(some); i++) {
			struct buf name = { 0 };
			uint64_t start;
			if (symtab_lookup(&k.tab, some[i], &name, &start))
				REQUIRE(start <= some[i] && name.len <= SYMTAB_NAME_MAX, "%zu bytes", name.len);
			buf_free(&name);
		}
		kallsyms_free(&k);
	}
	close(fd);
	return 0;
}
