# agent: samples from the kernel, unwound, named, served. Its rooms, bottom up.
include agent/runtime/local.mk
include agent/image/local.mk
include agent/kernel/local.mk
include agent/go/local.mk
include agent/python/local.mk
include agent/hotspot/local.mk
include agent/v8/local.mk
include agent/managed/local.mk
include agent/unwind/local.mk
include agent/process/local.mk
include agent/window/local.mk
include agent/names/local.mk
include agent/labels/local.mk
include agent/core/local.mk
include agent/serve/local.mk
noinst_LIBRARIES += libagent.a
libagent_a_SOURCES = $(AGENT_RUNTIME_SOURCES) \
  $(AGENT_IMAGE_SOURCES) \
  $(AGENT_KERNEL_SOURCES) \
  $(AGENT_GO_SOURCES) \
  $(AGENT_PYTHON_SOURCES) \
  $(AGENT_HOTSPOT_SOURCES) \
  $(AGENT_V8_SOURCES) \
  $(AGENT_MANAGED_SOURCES) \
  $(AGENT_UNWIND_SOURCES) \
  $(AGENT_PROCESS_SOURCES) \
  $(AGENT_WINDOW_SOURCES) \
  $(AGENT_NAMES_SOURCES) \
  $(AGENT_LABELS_SOURCES) \
  $(AGENT_CORE_SOURCES) \
  $(AGENT_SERVE_SOURCES)
# An absolute path, so that .incbin finds it wherever the compiler runs.
libagent_a_CPPFLAGS = $(AM_CPPFLAGS) -DPYRRHA_BPF_OBJECT=\"$(abs_builddir)/bpf/sample.bpf.o\"
AGENT_LIBS = libagent.a $(PPROF_LIBS) $(HTTPD_LIBS) $(KUBE_LIBS) $(BPF_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)
if HAVE_CMOCKA
check_DATA = tests/fixtures/agent/built
endif
AGENT_FIXTURES = tests/fixtures/agent/altstack.c tests/fixtures/agent/bigframe.c tests/fixtures/agent/build.sh \
  tests/fixtures/agent/dlopen.c tests/fixtures/agent/execs.c tests/fixtures/agent/fixture.h tests/fixtures/agent/gocgo.go tests/fixtures/agent/gofix.go tests/fixtures/agent/hostile.c tests/fixtures/agent/jit.c tests/fixtures/agent/libc.c \
  tests/fixtures/agent/libempty.c tests/fixtures/agent/look.c tests/fixtures/agent/plt.c tests/fixtures/agent/plugin.c tests/fixtures/agent/realign.c \
  tests/fixtures/agent/recursion.c tests/fixtures/agent/regions.c tests/fixtures/agent/rust.rs tests/fixtures/agent/shortlived.c tests/fixtures/agent/threads.c tests/fixtures/agent/tiny.c \
  tests/fixtures/agent/vdso.c tests/fixtures/agent/vfork.c
EXTRA_DIST += $(AGENT_FIXTURES) deploy/pyrrha-agent.service deploy/pyrrha-agent.sysctl.conf \
  deploy/Containerfile.agent
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
