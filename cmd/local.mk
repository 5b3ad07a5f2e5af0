# The programs: cmd/ is the only place that sees all layers.
include cmd/files.mk
bin_PROGRAMS += pyrrha
# files.mk: pyrrha_SOURCES = cmd/pyrrha.c cmd/flags.[ch] cmd/parca_flags.h cmd/program.[ch] cmd/*config*.[ch] $(SELFPROF_HEAP)
pyrrha_LDADD = libweb.a librules.a $(FLEET_LIBS) $(BUCKET_LIBS) $(REMOTE_LIBS) $(PROMQL_LIBS) $(SCRAPER_LIBS) $(TSDB_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)
bin_PROGRAMS += pyrrha-agent
# files.mk: pyrrha_agent_SOURCES = cmd/pyrrha_agent.c cmd/parca_agent_flags.h cmd/program.[ch] $(SELFPROF_HEAP)
pyrrha_agent_LDADD = $(AGENT_LIBS)

# The unit, its user, and a configuration to begin with, as an example: /etc is the administrator's.
install-data-local: install-server-units
install-server-units:
	$(MKDIR_P) $(DESTDIR)$(prefix)/lib/systemd/system $(DESTDIR)$(prefix)/lib/sysusers.d $(DESTDIR)$(docdir)
	sed 's|=/usr/bin/|=$(bindir)/|' $(srcdir)/deploy/pyrrha.service >$(DESTDIR)$(prefix)/lib/systemd/system/pyrrha.service
	$(INSTALL_DATA) $(srcdir)/deploy/pyrrha.sysusers.conf $(DESTDIR)$(prefix)/lib/sysusers.d/pyrrha.conf
	$(INSTALL_DATA) $(srcdir)/deploy/pyrrha.yml $(DESTDIR)$(docdir)/pyrrha.yml
uninstall-local: uninstall-server-units
uninstall-server-units:
	rm -f $(DESTDIR)$(prefix)/lib/systemd/system/pyrrha.service $(DESTDIR)$(prefix)/lib/sysusers.d/pyrrha.conf $(DESTDIR)$(docdir)/pyrrha.yml
.PHONY: install-server-units uninstall-server-units

bin_PROGRAMS += pyrtool
# files.mk: pyrtool_SOURCES = cmd/pyrtool.c cmd/tool*.[ch] cmd/rule_tests.[ch] cmd/*config*.[ch]
pyrtool_LDADD = libweb.a librules.a $(FLEET_LIBS) $(BUCKET_LIBS) $(HTTPD_LIBS) $(REMOTE_LIBS) $(PROMQL_LIBS) $(SCRAPER_LIBS) $(TSDB_LIBS) $(PPROF_LIBS) $(FETCH_LIBS) $(JANSSON_LIBS)
