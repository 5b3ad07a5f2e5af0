/* SPDX-License-Identifier: Apache-2.0 */
/* The code of the functions, by the file that holds it. */
#ifndef PYRRHA_PROMQL_FUNCS_H
#define PYRRHA_PROMQL_FUNCS_H

#include "promql-like/eval/eval.h"

/* One window of one series. */
struct func_window {
	const struct point *pts;
	size_t n;
	int64_t from_ms, to_ms;  /* (from, to] */
	int64_t t_ms;            /* of the output */
	double arg, arg2;        /* scalar arguments, at this step */
	struct eval *q;
	struct view metric;      /* __name__, for annotations */
	uint32_t node_start;
	double *work;            /* room for n numbers; NULL unless the row has FUNC_WORK */
	uint8_t edges;           /* enum range_edges: if any, points of the look-back before and, smoothed, after the range are there too */
};

/* The implementation, by the function's form (func.h). */
union func_code {
	int (*call)(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e);
	double (*map)(double v);
	bool (*window)(struct func_window *w, double *ret); /* false: no value */
};
extern const union func_code func_codes[]; /* parallel to func_table */

static inline const union func_code *func_code(const struct func *f)
{
	return &func_codes[f - func_table];
}

#define CALL(name) int name(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
#define MAP(name) double name(double v)
#define WINDOW(name) bool name(struct func_window *w, double *ret)

/* funcs_math.c */
MAP(fn_abs); MAP(fn_ceil); MAP(fn_floor); MAP(fn_exp); MAP(fn_sqrt); MAP(fn_ln); MAP(fn_log2); MAP(fn_log10);
MAP(fn_sin); MAP(fn_cos); MAP(fn_tan); MAP(fn_asin); MAP(fn_acos); MAP(fn_atan); MAP(fn_sinh); MAP(fn_cosh);
MAP(fn_tanh); MAP(fn_asinh); MAP(fn_acosh); MAP(fn_atanh); MAP(fn_rad); MAP(fn_deg); MAP(fn_sgn); MAP(fn_value);
CALL(fn_pi); CALL(fn_round); CALL(fn_clamp); CALL(fn_clamp_min); CALL(fn_clamp_max); CALL(fn_scalar); CALL(fn_vector);
CALL(fn_absent); CALL(fn_absent_over_time); CALL(fn_max_of); CALL(fn_min_of);
/* funcs_time.c */
CALL(fn_time); CALL(fn_timestamp); CALL(fn_start); CALL(fn_end); CALL(fn_step); CALL(fn_range);
MAP(fn_minute); MAP(fn_hour); MAP(fn_day_of_week); MAP(fn_day_of_month); MAP(fn_day_of_year); MAP(fn_days_in_month);
MAP(fn_month); MAP(fn_year);
/* funcs_range.c */
WINDOW(fn_rate); WINDOW(fn_increase); WINDOW(fn_delta); WINDOW(fn_irate); WINDOW(fn_idelta); WINDOW(fn_deriv);
WINDOW(fn_predict_linear); WINDOW(fn_changes); WINDOW(fn_resets); WINDOW(fn_avg_over_time); WINDOW(fn_sum_over_time);
WINDOW(fn_min_over_time); WINDOW(fn_max_over_time); WINDOW(fn_count_over_time); WINDOW(fn_last_over_time);
WINDOW(fn_first_over_time); WINDOW(fn_present_over_time); WINDOW(fn_stddev_over_time); WINDOW(fn_stdvar_over_time);
WINDOW(fn_quantile_over_time); WINDOW(fn_mad_over_time); WINDOW(fn_smoothing); WINDOW(fn_ts_of_first);
WINDOW(fn_ts_of_last); WINDOW(fn_ts_of_min); WINDOW(fn_ts_of_max);
/* funcs_info.c */
CALL(fn_info);
/* funcs_label.c */
CALL(fn_label_replace); CALL(fn_label_join); CALL(fn_sort); CALL(fn_sort_desc); CALL(fn_sort_by_label);
CALL(fn_sort_by_label_desc);
/* Whether a text may name a label. */
bool label_name_ok(struct view v);
/* funcs_histogram.c */
CALL(fn_histogram_quantile); CALL(fn_histogram_fraction); CALL(fn_histogram_native);
/* funcs_profile.c */
CALL(fn_merge_over_time); CALL(fn_coverage); CALL(fn_diff);
WINDOW(fn_needs_profiles);
/* readout_calls.c */
CALL(fn_self); CALL(fn_total); CALL(fn_share); CALL(fn_self_share); CALL(fn_share_low); CALL(fn_share_high);
CALL(fn_self_share_low); CALL(fn_self_share_high); CALL(fn_samples); CALL(fn_callers); CALL(fn_callees);
/* filters.c */
CALL(fn_focus); CALL(fn_ignore); CALL(fn_hide); CALL(fn_show); CALL(fn_show_from); CALL(fn_prune_from); CALL(fn_where);
CALL(fn_collapse); CALL(fn_invert); CALL(fn_trim); CALL(fn_tagroot);

/* Of rate (per_second) and increase, what profile_totals gives of a series. *ret_done is false, and out is anything, of one that has markers, weights
 * or sums near the end of 64 bits. */
int rate_totals(struct eval *q, const struct range_vector *r, const struct rseries *s, const struct span *sp, bool per_second, struct total *out,
		double *ret_per_s, bool *ret_done, struct err *e) MUST_USE;
/* Of sum_over_time, and merge_over_time of deltas, the same from points (s->points is plain). */
int sum_totals(struct eval *q, const struct range_vector *r, const struct rseries *s, const struct span *sp, struct total *out, struct err *e) MUST_USE;

#endif
