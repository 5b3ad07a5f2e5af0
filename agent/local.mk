# agent: samples from the kernel, unwound, named, served.
include agent/names.mk
noinst_LIBRARIES += libagent.a
libagent_a_SOURCES = $(AGENT_NAMES_SOURCES) \
  agent/agent.c agent/agent.h agent/agent_private.h agent/address_space.c agent/address_space.h agent/code_frame.c agent/code_frame.h agent/x86_insn.c agent/x86_insn.h agent/caps.c agent/caps.h agent/check.c \
  agent/cgroup_id.c agent/cgroup_id.h agent/cost.c agent/cost.h agent/drain.c agent/stack_finish.c agent/windows.c agent/extents.c agent/extents.h agent/filter.c agent/filter.h agent/go_frame.c agent/go_frame.h \
  agent/go_module.c agent/go_module.h agent/image.c agent/image.h agent/image_content.c agent/image_content.h agent/images.c \
  agent/images.h agent/metrics.c agent/offcpu.c agent/offcpu.h agent/pacer.c agent/pacer.h agent/perf_events.c \
  agent/image_files.c agent/image_files.h agent/image_ids.c agent/image_ids.h agent/kernel_procs.c agent/kernel_procs.h agent/perf_events.h agent/proc_files.c agent/proc_files.h agent/process.c agent/process.h agent/process_info.c agent/process_info.h agent/profile_window.c agent/profile_window.h \
  agent/cpu_rings.c agent/cpu_rings.h agent/sampler.c agent/sampler.h agent/sampler_object.c agent/stack_tree.c agent/stack_tree.h \
  agent/tables.c agent/table_fds.h agent/tables.h agent/tally.c agent/tally.h agent/unwind_native.c agent/unwind_native.h
# An absolute path, so that .incbin finds it wherever the compiler runs.
libagent_a_CPPFLAGS = $(AM_CPPFLAGS) -DPYRRHA_BPF_OBJECT=\"$(abs_builddir)/bpf/sample.bpf.o\"
agent/libagent_a-sampler_object.$(OBJEXT): bpf/sample.bpf.o
AGENT_LIBS = libagent.a $(PPROF_LIBS) $(HTTPD_LIBS) $(KUBE_LIBS) $(BPF_LIBS) $(AGENT_NAMES_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += code_frame_test eh_frame_test eh_frame_elfutils_test process_test tables_test cpu_rings_test agent_test pacer_test windows_test tally_test
TESTS += code_frame_test eh_frame_test eh_frame_elfutils_test process_test tables_test cpu_rings_test agent_test pacer_test windows_test tally_test
cpu_rings_test_SOURCES = agent/cpu_rings_test.c
cpu_rings_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
tally_test_SOURCES = agent/tally_test.c
tally_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
pacer_test_SOURCES = agent/pacer_test.c
pacer_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
tables_test_SOURCES = agent/tables_test.c
tables_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
process_test_SOURCES = agent/process_test.c
process_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
code_frame_test_SOURCES = agent/code_frame_test.c agent/eh_frame_rows.h
code_frame_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
eh_frame_test_SOURCES = agent/eh_frame_test.c agent/eh_frame_rows.h
eh_frame_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
eh_frame_elfutils_test_SOURCES = agent/eh_frame_elfutils_test.c agent/eh_frame_rows.h
eh_frame_elfutils_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
windows_test_SOURCES = agent/windows_test.c
windows_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
agent_test_SOURCES = agent/agent_test.c
agent_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
check_DATA = tests/fixtures/agent/built
endif
AGENT_FIXTURES = tests/fixtures/agent/altstack.c tests/fixtures/agent/bigframe.c tests/fixtures/agent/build.sh \
  tests/fixtures/agent/dlopen.c tests/fixtures/agent/execs.c tests/fixtures/agent/fixture.h tests/fixtures/agent/gocgo.go tests/fixtures/agent/gofix.go tests/fixtures/agent/hostile.c tests/fixtures/agent/jit.c tests/fixtures/agent/libc.c \
  tests/fixtures/agent/libempty.c tests/fixtures/agent/look.c tests/fixtures/agent/plt.c tests/fixtures/agent/plugin.c tests/fixtures/agent/realign.c \
  tests/fixtures/agent/recursion.c tests/fixtures/agent/rust.rs tests/fixtures/agent/shortlived.c tests/fixtures/agent/threads.c tests/fixtures/agent/tiny.c \
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
