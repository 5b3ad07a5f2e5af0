# promql-like/eval: nodes into values.
PROMQL_EVAL_SOURCES = \
  promql-like/eval/eval.c \
  promql-like/eval/eval.h \
  promql-like/eval/eval_aggr.c \
  promql-like/eval/eval_binary.c \
  promql-like/eval/eval_call.c \
  promql-like/eval/eval_merge.c \
  promql-like/eval/eval_selector.c \
  promql-like/eval/eval_totals.c \
  promql-like/eval/filters.c \
  promql-like/eval/funcs.h \
  promql-like/eval/funcs_diff.c \
  promql-like/eval/funcs_histogram.c \
  promql-like/eval/funcs_info.c \
  promql-like/eval/funcs_label.c \
  promql-like/eval/funcs_math.c \
  promql-like/eval/funcs_profile.c \
  promql-like/eval/funcs_range.c \
  promql-like/eval/funcs_time.c \
  promql-like/eval/functions.c \
  promql-like/eval/pwindow.c \
  promql-like/eval/pwindow.h \
  promql-like/eval/rate_totals.c \
  promql-like/eval/readout_calls.c \
  promql-like/eval/readout_calls.h \
  promql-like/eval/readout_merged.c \
  promql-like/eval/readout_rated.c \
  promql-like/eval/readout_wanted.c
