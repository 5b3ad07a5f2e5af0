/* SPDX-License-Identifier: Apache-2.0 */
/* For tests and benchmarks: the calls of a source (source.h) about one series, whose result is returned instead of handed out. */
#ifndef PYRRHA_MODEL_SOURCEKIT_H
#define PYRRHA_MODEL_SOURCEKIT_H

#include "model/source.h"

/* Where a result goes. */
struct one_series {
	void *ret;
	size_t *n;
};

MUST_USE static inline int one_series_put_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	(void)series, (void)e;
	const struct one_series *to = arg;
	*(struct point **)to->ret = v;
	*to->n = n;
	return 0;
}

MUST_USE static inline int one_series_put_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	(void)series, (void)e;
	const struct one_series *to = arg;
	*(struct source_profile **)to->ret = v;
	*to->n = n;
	return 0;
}

MUST_USE static inline int one_series_put_points(void *arg, size_t series, struct source_points *p, struct err *e)
{
	(void)series, (void)e;
	*(struct source_points *)((struct one_series *)arg)->ret = *p;
	return 0;
}

MUST_USE static inline int one_series_put_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	(void)series, (void)e;
	*(struct source_cover **)((struct one_series *)arg)->ret = v;
	return 0;
}

/* Each returns what the source's call returned; *ret is set only if that is 0, and owned. */
MUST_USE static inline int one_series_floats(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
					     struct point **ret, size_t *ret_n, struct err *e)
{
	return v->ops->floats(v, &ref, 1, after_ms, until_ms, lim, one_series_put_floats, &(struct one_series){ ret, ret_n }, e);
}

MUST_USE static inline int one_series_profiles(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
					       struct source_profile **ret, size_t *ret_n, struct err *e)
{
	return v->ops->profiles(v, &ref, 1, after_ms, until_ms, lim, one_series_put_profiles, &(struct one_series){ ret, ret_n }, e);
}

MUST_USE static inline int one_series_points(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
					     const struct source_limits *lim, struct source_points *ret, struct err *e)
{
	return v->ops->points(v, &ref, 1, after_ms, until_ms, windows, lim, one_series_put_points, &(struct one_series){ ret, NULL }, e);
}

/* Free *ret with source_covers_free. */
MUST_USE static inline int one_series_covers(struct source_view *v, uint64_t ref, const struct source_tiles *t, const struct source_limits *lim,
					     struct source_cover **ret, struct err *e)
{
	return v->ops->covers(v, &ref, 1, t, lim, one_series_put_covers, &(struct one_series){ ret, NULL }, e);
}

MUST_USE static inline int one_series_cover(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
					    struct source_cover *ret, struct err *e)
{
	struct source_cover *one = NULL;
	int rc = one_series_covers(v, ref, &(struct source_tiles){ after_ms, until_ms - after_ms, 1 }, lim, &one, e);
	if (!rc)
		*ret = *one;
	free(one);
	return rc;
}

#endif
