/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a fuzz target files, folders of them, or, without arguments, its seeds in the source tree. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"

static unsigned fed;

static int feed_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t n = 0, cap = 1 << 16;
	uint8_t *data = xmalloc(cap);
	if (!f) {
		perror(path);
		free(data);
		return 1;
	}
	for (size_t got; (got = fread(data + n, 1, cap - n, f)) > 0;) {
		n += got;
		if (n == cap)
			data = xrealloc(data, cap *= 2);
	}
	fclose(f);
	/* a block of the very size, so that a sanitizer sees a read past its end */
	uint8_t *exact = xmalloc(n ? n : 1);
	memcpy(exact, data, n);
	free(data);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	fed++;
	return 0;
}

static int feed(const char *path)
{
	struct stat st;
	DIR *d = NULL;
	int failed = 0;
	if (stat(path, &st) || (S_ISDIR(st.st_mode) && !(d = opendir(path)))) {
		perror(path);
		return 1;
	}
	if (!d)
		return feed_file(path);
	for (struct dirent *x; (x = readdir(d));)
		if (x->d_name[0] != '.') {
			char *sub AUTOFREE = xasprintf("%s/%s", path, x->d_name);
			failed |= feed(sub);
		}
	closedir(d);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;
	for (int i = 1; i < argc; i++)
		failed |= feed(argv[i]);
	if (argc == 1) {
		const char *src = getenv("top_srcdir");
		char *seeds AUTOFREE = xasprintf("%s/tests/fuzz/corpus/%s", src ? src : ".", fuzz_target);
		failed = feed(seeds);
	}
	printf("%s: %u inputs\n", fuzz_target, fed);
	return failed || !fed;
}
