# web: the API and the page. UI_FILES (web/ui/local.mk) are the page's files in the build folder; they go into the
# binary through a generated web/assets.c.
include web/files.mk
include web/ui/local.mk

noinst_LIBRARIES += libweb.a
nodist_libweb_a_SOURCES = web/assets.c
WEB_LIBS = libweb.a $(FLEET_LIBS) $(REMOTE_LIBS) $(CONFIG_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)

web/assets.c: web/embed.sh $(UI_FILES)
	$(AM_V_GEN)$(MKDIR_P) web && $(SHELL) $(srcdir)/web/embed.sh $(UI_FILES) >$@.tmp && mv $@.tmp $@
CLEANFILES += web/assets.c

# The engine is replaced by one that answers by rote: these tests do not link promql-like.
if HAVE_CMOCKA
check_LIBRARIES += libwebfake.a
endif
libwebfake_a_SOURCES = web/fake_test.c
WEB_TEST_LIBS = libweb.a libwebfake.a $(WEB_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)
flame_real_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
