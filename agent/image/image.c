/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/image/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"

struct image *image_ref(struct image *im)
{
	atomic_fetch_add_explicit(&im->refs, 1, memory_order_relaxed);
	return im;
}

/* Held while a descriptor is closed or copied, so that no copy is of another file that got the same number. */
static struct mutex fd_lock = MUTEX_INIT(LOCK_LEAF, "descriptors of images");

void image_close_file(struct image *im)
{
	mutex_lock(&fd_lock);
	int fd = atomic_exchange(&im->fd, -1);
	if (fd >= 0)
		close(fd);
	mutex_unlock(&fd_lock);
}

void image_unref(struct image *im)
{
	if (!im || atomic_fetch_sub(&im->refs, 1) != 1)
		return;
	image_close_file(im);
	runtime_file_free(im->runtime);
	free(im->path);
	free(im);
}

int image_dup_fd(struct image *im)
{
	mutex_lock(&fd_lock);
	int fd = atomic_load(&im->fd);
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	mutex_unlock(&fd_lock);
	return copy;
}

bool image_segment_at(const struct image *im, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_limit,
		      uint64_t *ret_offset)
{
	for (unsigned i = 0; i < im->n_segments; i++) {
		const struct image_segment *s = &im->segments[i];
		uint64_t start = s->vaddr & ~4095ull;
		if (vaddr < start || vaddr >= s->vaddr + s->memsz)
			continue;
		*ret_start = start;
		*ret_limit = (s->vaddr + s->memsz + 4095) & ~4095ull;
		*ret_offset = s->offset & ~4095ull;
		return true;
	}
	return false;
}

char *image_build_id_hex(const struct image *im, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned i = 0; i < im->build_id_len; i++) {
		out[2 * i] = digits[im->build_id[i] >> 4];
		out[2 * i + 1] = digits[im->build_id[i] & 15];
	}
	out[2 * im->build_id_len] = 0;
	return out;
}
