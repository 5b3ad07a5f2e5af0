# promql-like/values: the query at work, profiles and values.
PROMQL_VALUES_SOURCES = \
  promql-like/values/arith.h \
  promql-like/values/explain.c \
  promql-like/values/explain.h \
  promql-like/values/lazy_profile.c \
  promql-like/values/lazy_profile.h \
  promql-like/values/memory_guard.c \
  promql-like/values/memory_guard.h \
  promql-like/values/query.c \
  promql-like/values/query.h \
  promql-like/values/value.c
