# agent: samples from the kernel, unwound, named, served.
include agent/files.mk
noinst_LIBRARIES += libagent.a
# An absolute path, so that .incbin finds it wherever the compiler runs.
libagent_a_CPPFLAGS = $(AM_CPPFLAGS) -DPYRRHA_BPF_OBJECT=\"$(abs_builddir)/bpf/sample.bpf.o\"
AGENT_LIBS = libagent.a $(PPROF_LIBS) $(HTTPD_LIBS) $(KUBE_LIBS) $(BPF_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)
if HAVE_CMOCKA
check_DATA = tests/fixtures/agent/built
endif
# files.mk: AGENT_FIXTURES = tests/fixtures/agent/*.[ch] tests/fixtures/agent/*.go tests/fixtures/agent/*.rs tests/fixtures/agent/build.sh
tests/fixtures/agent/built: $(AGENT_FIXTURES)
	$(AM_V_GEN)$(srcdir)/tests/fixtures/agent/build.sh $(srcdir)/tests/fixtures/agent $(abs_builddir)/tests/fixtures/agent $(CC) && touch $@
clean-local-agent:
	rm -rf tests/fixtures/agent/*.fp tests/fixtures/agent/*.nofp tests/fixtures/agent/*.nopie tests/fixtures/agent/*.static \
	  tests/fixtures/agent/*.staticpie tests/fixtures/agent/*.stripped tests/fixtures/agent/*.debug \
	  tests/fixtures/agent/*.notables tests/fixtures/agent/*.ownpages tests/fixtures/agent/*.deleted tests/fixtures/agent/*.debugdata \
	  tests/fixtures/agent/*.xz tests/fixtures/agent/*.v0 tests/fixtures/agent/*.musl* tests/fixtures/agent/*.exe tests/fixtures/agent/*.pie tests/fixtures/agent/*.ibt tests/fixtures/agent/*.so tests/fixtures/agent/built
clean-local: clean-local-agent
# The unit, and what it needs of the kernel where perf_event_paranoid is 3.
install-data-local: install-agent-units
install-agent-units:
	$(MKDIR_P) $(DESTDIR)$(prefix)/lib/systemd/system $(DESTDIR)$(prefix)/lib/sysctl.d
	sed 's|=/usr/bin/|=$(bindir)/|' $(srcdir)/deploy/pyrrha-agent.service >$(DESTDIR)$(prefix)/lib/systemd/system/pyrrha-agent.service
	$(INSTALL_DATA) $(srcdir)/deploy/pyrrha-agent.sysctl.conf $(DESTDIR)$(prefix)/lib/sysctl.d/60-pyrrha-agent.conf
uninstall-local: uninstall-agent-units
uninstall-agent-units:
	rm -f $(DESTDIR)$(prefix)/lib/systemd/system/pyrrha-agent.service $(DESTDIR)$(prefix)/lib/sysctl.d/60-pyrrha-agent.conf
.PHONY: install-agent-units uninstall-agent-units
.PHONY: clean-local-agent
agent/kernel/libagent_a-sampler_object.$(OBJEXT): bpf/sample.bpf.o

AGENT_TEST_LIBS = $(AGENT_LIBS) $(CMOCKA_LIBS)
hotspot_layout_test_SOURCES = agent/hotspot/layout_test.c
python_code_test_SOURCES = agent/python/code_test.c
python_recognise_test_SOURCES = agent/python/recognise_test.c
v8_walk_test_CFLAGS = $(AM_CFLAGS) -Wno-unused-parameter -Wno-unused-function
