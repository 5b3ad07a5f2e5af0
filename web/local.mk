# web: the API and the page. UI_FILES (web/ui/local.mk) are the page's files in the build folder; they go into the
# binary through a generated web/assets.c.
include web/ui/local.mk

include web/profiles/local.mk

noinst_LIBRARIES += libweb.a
libweb_a_SOURCES = $(WEB_PROFILES_SOURCES) \
  web/admin.c \
  web/answer.c \
  web/answer.h \
  web/api_alertmanagers.c \
  web/api_features.c \
  web/api_frames.c \
  web/api_language.c \
  web/api_links.c \
  web/api_metadata.c \
  web/api_pins.c \
  web/api_query.c \
  web/api_rules.c \
  web/api_rules_past.c \
  web/api_series.c \
  web/api_status.c \
  web/api_targets.c \
  web/api_types.c \
  web/api_write.c \
  web/assets.h \
  web/federate.c \
  web/formats.c \
  web/formats.h \
  web/internal.h \
  web/lanes.c \
  web/lookup.c \
  web/lookup.h \
  web/management.c \
  web/matrix_columns.c \
  web/matrix_columns.h \
  web/metadata.h \
  web/pages.c \
  web/params.c \
  web/params.h \
  web/pins.c \
  web/pins.h \
  web/question.c \
  web/remedies.c \
  web/remedies.h \
  web/selectors.c \
  web/source_links.c \
  web/source_links.h \
  web/symbolz.c \
  web/web.c \
  web/web.h
nodist_libweb_a_SOURCES = web/assets.c
WEB_LIBS = libweb.a $(REMOTE_LIBS) $(CONFIG_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)

web/assets.c: web/embed.sh $(UI_FILES)
	$(AM_V_GEN)$(MKDIR_P) web && $(SHELL) $(srcdir)/web/embed.sh $(UI_FILES) >$@.tmp && mv $@.tmp $@
EXTRA_DIST += web/embed.sh docs/http-api.md docs/format/flame.md docs/format/matrix.md
CLEANFILES += web/assets.c

# The engine is replaced by one that answers by rote: the test does not link promql-like.
if HAVE_CMOCKA
check_PROGRAMS += web_test
TESTS += web_test
web_test_SOURCES = web/fake_test.c web/fake_test.h web/web_test.c
web_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += values_test
TESTS += values_test
values_test_SOURCES = web/fake_test.c web/fake_test.h web/values_test.c
values_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += rules_view_test
TESTS += rules_view_test
rules_view_test_SOURCES = web/fake_test.c web/fake_test.h web/rules_view_test.c
rules_view_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += write_test
TESTS += write_test
write_test_SOURCES = web/fake_test.c web/fake_test.h web/write_test.c
write_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += flame_real_test
TESTS += flame_real_test
flame_real_test_SOURCES = web/flame_real_test.c
flame_real_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += params_test
TESTS += params_test
params_test_SOURCES = web/fake_test.c web/fake_test.h web/params_test.c
params_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += pins_test
TESTS += pins_test
pins_test_SOURCES = web/pins_test.c
pins_test_LDADD = $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += source_links_test
TESTS += source_links_test
source_links_test_SOURCES = web/source_links_test.c
source_links_test_LDADD = $(WEB_LIBS) $(CMOCKA_LIBS)
endif
