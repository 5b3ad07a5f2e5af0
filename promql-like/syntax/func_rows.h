/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the language, a row each: name, arguments, result, how it runs, its code, what it does. It is included twice, each time
 * with another ROW: signatures.c takes all but the code, functions.c the code. Documentation and completion read it too.
 * Aggregations have their table in ast.c.
 *
 *	ROW(name, arguments, result, form, code, flags, signature, documentation) */
#define V PROMQL_VECTOR
#define S PROMQL_SCALAR
#define MAPS(name, fn, doc) ROW(name, "v", V, FUNC_MAP, .map = fn, 0, name "(vector)", doc)
#define WINDOWS(name, fn, flags, doc) ROW(name, "m", V, FUNC_WINDOW, .window = fn, flags, name "(range)", doc)
#define TIMES(name, fn, doc) ROW(name, "?v", V, FUNC_TIME, .map = fn, 0, name "([vector])", doc)
#define CALLS(name, args, ret, fn, sig, doc) ROW(name, args, ret, FUNC_CALL, .call = fn, 0, name sig, doc)
#define PROFILES(name, args, ret, fn, sig, doc) ROW(name, args, ret, FUNC_PROFILE, .call = fn, 0, name sig, doc)
#define REFUSED(name, why) ROW(name, "", V, FUNC_REFUSED, .call = NULL, 0, name "(...)", why)

MAPS("abs", fn_abs, "The absolute value.")
CALLS("absent", "v", V, fn_absent, "(vector)", "1 if the vector is empty.")
CALLS("absent_over_time", "m", V, fn_absent_over_time, "(range)", "1 if the range holds nothing.")
MAPS("acos", fn_acos, "The arc cosine.")
MAPS("acosh", fn_acosh, "The inverse hyperbolic cosine.")
MAPS("asin", fn_asin, "The arc sine.")
MAPS("asinh", fn_asinh, "The inverse hyperbolic sine.")
MAPS("atan", fn_atan, "The arc tangent.")
MAPS("atanh", fn_atanh, "The inverse hyperbolic tangent.")
WINDOWS("avg_over_time", fn_avg_over_time, FUNC_PROFILES, "The mean over time; of profiles stack by stack.")
PROFILES("callees", "vf", V, fn_callees, "(profiles, F)", "The callees of the matching frames, per function.")
PROFILES("callers", "vf", V, fn_callers, "(profiles, F)", "The callers of the matching frames, per function.")
MAPS("ceil", fn_ceil, "Rounded up.")
WINDOWS("changes", fn_changes, 0, "How often the value changed.")
CALLS("clamp", "vss", V, fn_clamp, "(vector, min, max)", "Kept between min and max.")
CALLS("clamp_max", "vs", V, fn_clamp_max, "(vector, max)", "Kept at most max.")
CALLS("clamp_min", "vs", V, fn_clamp_min, "(vector, min)", "Kept at least min.")
PROFILES("collapse", "vS", V, fn_collapse, "(profiles, \"recursion\")", "Adjacent frames of one function become one.")
MAPS("cos", fn_cos, "The cosine.")
MAPS("cosh", fn_cosh, "The hyperbolic cosine.")
WINDOWS("count_over_time", fn_count_over_time, 0, "Number of samples.")
PROFILES("coverage", "m", V, fn_coverage, "(profiles[range])", "The share of the range that was observed.")
TIMES("day_of_month", fn_day_of_month, "1 to 31, UTC.")
TIMES("day_of_week", fn_day_of_week, "0 (Sunday) to 6, UTC.")
TIMES("day_of_year", fn_day_of_year, "1 to 366, UTC.")
TIMES("days_in_month", fn_days_in_month, "28 to 31, UTC.")
MAPS("deg", fn_deg, "Radians to degrees.")
WINDOWS("delta", fn_delta, 0, "Last minus first value, extrapolated to the range.")
WINDOWS("deriv", fn_deriv, 0, "Slope per second by linear regression.")
PROFILES("diff", "vv?S", V, fn_diff, "(A, B [, \"share\"])", "A minus B, both sides kept; \"share\" scales A to B's total first.")
ROW("double_exponential_smoothing", "mss", V, FUNC_WINDOW, .window = fn_smoothing, FUNC_EXPERIMENTAL,
  "double_exponential_smoothing(range, sf, tf)", "Holt's smoothed value.")
ROW("end", "", S, FUNC_CALL, .call = fn_end, FUNC_EXPERIMENTAL, "end()", "End of the query's range, seconds.")
MAPS("exp", fn_exp, "e to the power of the value.")
WINDOWS("first_over_time", fn_first_over_time, FUNC_PROFILES | FUNC_KEEPS_NAME, "The oldest sample.")
MAPS("floor", fn_floor, "Rounded down.")
PROFILES("focus", "vf", V, fn_focus, "(profiles, F)", "Only stacks with a matching frame.")
ROW("frames", "S", PROMQL_NONE, FUNC_FRAMES, .call = NULL, 0, "frames(\"regexp\")",
  "A frame matcher: pprof's unanchored expression on function, file or binary.")
PROFILES("hide", "vf", V, fn_hide, "(profiles, F)", "Matching frames disappear from their stacks.")
CALLS("histogram_avg", "v", V, fn_histogram_native, "(vector)", "Native histograms only: floats are ignored.")
CALLS("histogram_count", "v", V, fn_histogram_native, "(vector)", "Native histograms only: floats are ignored.")
CALLS("histogram_fraction", "ssv", V, fn_histogram_fraction, "(lower, upper, vector)", "Share of observations between the bounds.")
CALLS("histogram_quantile", "sv", V, fn_histogram_quantile, "(q, vector)", "The q-quantile of classic histograms.")
REFUSED("histogram_quantiles", "it is experimental in Prometheus")
CALLS("histogram_stddev", "v", V, fn_histogram_native, "(vector)", "Native histograms only: floats are ignored.")
CALLS("histogram_stdvar", "v", V, fn_histogram_native, "(vector)", "Native histograms only: floats are ignored.")
CALLS("histogram_sum", "v", V, fn_histogram_native, "(vector)", "Native histograms only: floats are ignored.")
REFUSED("holt_winters", "it was renamed double_exponential_smoothing")
TIMES("hour", fn_hour, "0 to 23, UTC.")
WINDOWS("idelta", fn_idelta, 0, "Difference of the last two samples.")
PROFILES("ignore", "vf", V, fn_ignore, "(profiles, F)", "Only stacks without a matching frame.")
WINDOWS("increase", fn_increase, FUNC_PROFILES, "How much a counter, or what a profile measures, grew over the range.")
ROW("info", "v?l", V, FUNC_CALL, .call = fn_info, FUNC_EXPERIMENTAL | FUNC_SWITCHED, "info(vector [, {matchers}])",
  "Adds labels of the info series (target_info) of the same instance and job.")
PROFILES("invert", "v", V, fn_invert, "(profiles)", "Stacks upside down: the leaf becomes the root.")
WINDOWS("irate", fn_irate, 0, "Per-second rate of the last two samples.")
ROW("label_join", "vSSS*", V, FUNC_CALL, .call = fn_label_join, 0, "label_join(vector, \"to\", \"separator\", \"from\", ...)",
  "Sets a label to several others, joined.")
CALLS("label_replace", "vSSSS", V, fn_label_replace, "(vector, \"to\", \"replacement\", \"from\", \"regexp\")",
      "Sets a label from another by a regular expression.")
WINDOWS("last_over_time", fn_last_over_time, FUNC_PROFILES | FUNC_KEEPS_NAME, "The newest sample.")
MAPS("ln", fn_ln, "The natural logarithm.")
MAPS("log10", fn_log10, "The decimal logarithm.")
MAPS("log2", fn_log2, "The binary logarithm.")
ROW("mad_over_time", "m", V, FUNC_WINDOW, .window = fn_mad_over_time, FUNC_EXPERIMENTAL | FUNC_WORK,
  "mad_over_time(range)", "Median absolute deviation.")
ROW("max_of", "ss", S, FUNC_CALL, .call = fn_max_of, FUNC_EXPERIMENTAL, "max_of(a, b)", "The greater scalar.")
WINDOWS("max_over_time", fn_max_over_time, FUNC_PROFILES, "The greatest value; of profiles the whole one with it.")
PROFILES("merge_over_time", "m", V, fn_merge_over_time, "(profiles[range])", "Per series: what was observed, added up.")
ROW("min_of", "ss", S, FUNC_CALL, .call = fn_min_of, FUNC_EXPERIMENTAL, "min_of(a, b)", "The lesser scalar.")
WINDOWS("min_over_time", fn_min_over_time, FUNC_PROFILES, "The least value; of profiles the whole one with it.")
TIMES("minute", fn_minute, "0 to 59, UTC.")
TIMES("month", fn_month, "1 to 12, UTC.")
CALLS("pi", "", S, fn_pi, "()", "3.14159...")
ROW("predict_linear", "ms", V, FUNC_WINDOW, .window = fn_predict_linear, 0, "predict_linear(range, seconds)",
  "The value in that many seconds, by linear regression.")
WINDOWS("present_over_time", fn_present_over_time, 0, "1 for each series with a sample.")
PROFILES("prune_from", "vf", V, fn_prune_from, "(profiles, F)", "The callees of the matching frames are cut off.")
ROW("quantile_over_time", "sm", V, FUNC_WINDOW, .window = fn_quantile_over_time, FUNC_WORK,
  "quantile_over_time(q, range)", "The q-quantile of the values.")
MAPS("rad", fn_rad, "Degrees to radians.")
ROW("range", "", S, FUNC_CALL, .call = fn_range, FUNC_EXPERIMENTAL, "range()", "Length of the query's range, seconds.")
WINDOWS("rate", fn_rate, FUNC_PROFILES, "Per-second increase; of CPU profiles: cores.")
WINDOWS("resets", fn_resets, 0, "How often a counter was reset.")
CALLS("round", "v?s", V, fn_round, "(vector [, to])", "Rounded to a multiple.")
PROFILES("samples", "v?f", V, fn_samples, "(profiles [, F])", "The number of observations in a profile.")
CALLS("scalar", "v", S, fn_scalar, "(vector)", "The value of the only element, else NaN.")
PROFILES("self", "v?rg", V, fn_self, "(profiles [, F] [, \"function\" \"line\" \"file\" \"binary\" \"package\"])",
	 "Value in the frame itself.")
PROFILES("self_share", "v?rg", V, fn_self_share, "(profiles [, F] [, granularity])", "self as a share of the profile.")
PROFILES("self_share_high", "v-r-gs", V, fn_self_share_high, "(profiles [, F] [, granularity], z)",
	 "Wilson's upper bound of self_share, z standard errors out.")
PROFILES("self_share_low", "v-r-gs", V, fn_self_share_low, "(profiles [, F] [, granularity], z)",
	 "Wilson's lower bound of self_share, z standard errors out.")
MAPS("sgn", fn_sgn, "-1, 0 or 1.")
PROFILES("share", "v?rg", V, fn_share, "(profiles [, F] [, granularity])", "total as a share of the profile.")
PROFILES("share_high", "v-r-gs", V, fn_share_high, "(profiles [, F] [, granularity], z)",
	 "Wilson's upper bound of share, z standard errors out.")
PROFILES("share_low", "v-r-gs", V, fn_share_low, "(profiles [, F] [, granularity], z)",
	 "Wilson's lower bound of share, z standard errors out.")
PROFILES("show", "vf", V, fn_show, "(profiles, F)", "Only matching frames stay in their stacks.")
PROFILES("show_from", "vf", V, fn_show_from, "(profiles, F)", "Stacks start at the matching frame nearest the root.")
MAPS("sin", fn_sin, "The sine.")
MAPS("sinh", fn_sinh, "The hyperbolic sine.")
CALLS("sort", "v", V, fn_sort, "(vector)", "Ascending by value.")
ROW("sort_by_label", "vS*", V, FUNC_CALL, .call = fn_sort_by_label, FUNC_EXPERIMENTAL, "sort_by_label(vector [, \"label\", ...])",
  "Ascending by labels.")
ROW("sort_by_label_desc", "vS*", V, FUNC_CALL, .call = fn_sort_by_label_desc, FUNC_EXPERIMENTAL,
  "sort_by_label_desc(vector, \"label\", ...)", "Descending by labels.")
CALLS("sort_desc", "v", V, fn_sort_desc, "(vector)", "Descending by value.")
MAPS("sqrt", fn_sqrt, "The square root.")
ROW("start", "", S, FUNC_CALL, .call = fn_start, FUNC_EXPERIMENTAL, "start()", "Start of the query's range, seconds.")
REFUSED("start_timestamp", "it is experimental in Prometheus")
WINDOWS("stddev_over_time", fn_stddev_over_time, 0, "Population standard deviation.")
WINDOWS("stdvar_over_time", fn_stdvar_over_time, 0, "Population variance.")
ROW("step", "", S, FUNC_CALL, .call = fn_step, FUNC_EXPERIMENTAL, "step()", "The query's step, seconds.")
WINDOWS("sum_over_time", fn_sum_over_time, FUNC_PROFILES, "The sum; of profiles stack by stack.")
PROFILES("tagroot", "vSS*", V, fn_tagroot, "(profiles, \"label\", ...)", "Values of labels, of elements or samples, as the outermost frames: pods first.")
MAPS("tan", fn_tan, "The tangent.")
MAPS("tanh", fn_tanh, "The hyperbolic tangent.")
CALLS("time", "", S, fn_time, "()", "The time of the evaluation, seconds.")
CALLS("timestamp", "v", V, fn_timestamp, "(vector)", "When each sample was taken, seconds.")
PROFILES("total", "v?rg", V, fn_total, "(profiles [, F] [, granularity])", "Value in the frame and what it calls; recursion counts once.")
PROFILES("trim", "vs", V, fn_trim, "(profiles, fraction)", "Small subtrees become one (other) per parent.")
ROW("ts_of_first_over_time", "m", V, FUNC_WINDOW, .window = fn_ts_of_first, FUNC_EXPERIMENTAL,
  "ts_of_first_over_time(range)", "When the first sample was.")
ROW("ts_of_last_over_time", "m", V, FUNC_WINDOW, .window = fn_ts_of_last, FUNC_EXPERIMENTAL,
  "ts_of_last_over_time(range)", "When the last sample was.")
ROW("ts_of_max_over_time", "m", V, FUNC_WINDOW, .window = fn_ts_of_max, FUNC_EXPERIMENTAL,
  "ts_of_max_over_time(range)", "When the greatest sample was.")
ROW("ts_of_min_over_time", "m", V, FUNC_WINDOW, .window = fn_ts_of_min, FUNC_EXPERIMENTAL,
  "ts_of_min_over_time(range)", "When the least sample was.")
MAPS("value", fn_value, "The value of a profile in base units.")
CALLS("vector", "s", V, fn_vector, "(scalar)", "A vector with one element without labels.")
PROFILES("where", "vw?S", V, fn_where, "(profiles, {sample labels} | \"key\", \"range\")",
	 "Only samples with these labels, or whose numeric label is within \"1mb:4mb\".")
TIMES("year", fn_year, "The year, UTC.")

#undef V
#undef S
#undef MAPS
#undef WINDOWS
#undef TIMES
#undef CALLS
#undef PROFILES
#undef REFUSED
