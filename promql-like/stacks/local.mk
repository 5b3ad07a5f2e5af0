# promql-like/stacks: filters and numbers of stacks.
PROMQL_STACKS_SOURCES = \
  promql-like/stacks/frames.c \
  promql-like/stacks/frames.h \
  promql-like/stacks/graph.c \
  promql-like/stacks/graph_rows.c \
  promql-like/stacks/graph_rows.h \
  promql-like/stacks/graph_terms.c \
  promql-like/stacks/graph_terms.h \
  promql-like/stacks/reading.c \
  promql-like/stacks/readout.h \
  promql-like/stacks/readout_choice.c \
  promql-like/stacks/readout_kept.c \
  promql-like/stacks/readout_out.c \
  promql-like/stacks/readout_rows.c \
  promql-like/stacks/readout_sums.c \
  promql-like/stacks/rewrite.c \
  promql-like/stacks/rewrite.h \
  promql-like/stacks/shared.c \
  promql-like/stacks/shared.h \
  promql-like/stacks/stack_filter.c \
  promql-like/stacks/stack_filter.h \
  promql-like/stacks/tagroot.c \
  promql-like/stacks/tagroot.h
