# web/profiles: the profiles of an answer, as files and as columns.
WEB_PROFILES_SOURCES = \
  web/profiles/dot.c \
  web/profiles/flame_columns.c \
  web/profiles/flame_columns.h \
  web/profiles/flame_svg.c \
  web/profiles/flamegraph.c \
  web/profiles/frame_lists.c \
  web/profiles/merged.c \
  web/profiles/merged.h \
  web/profiles/pprof_out.c \
  web/profiles/profiles_json.c \
  web/profiles/speedscope.c
if HAVE_CMOCKA
check_PROGRAMS += frame_lists_test
TESTS += frame_lists_test
frame_lists_test_SOURCES = web/profiles/frame_lists_test.c
frame_lists_test_LDADD = $(WEB_LIBS) $(CMOCKA_LIBS)
endif
