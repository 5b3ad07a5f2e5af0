# The programs: cmd/ is the only place that sees all layers.
bin_PROGRAMS += pyrrha
pyrrha_SOURCES = cmd/configuration.c cmd/configuration.h cmd/query_config.c cmd/query_config.h cmd/flags.c cmd/flags.h cmd/program.c cmd/program.h cmd/pyrrha.c cmd/storage_config.c cmd/storage_config.h $(SELFPROF_HEAP)
pyrrha_LDADD = libweb.a librules.a $(REMOTE_LIBS) $(PROMQL_LIBS) $(SCRAPER_LIBS) $(TSDB_LIBS) $(SELFPROF_LIBS) $(JANSSON_LIBS)
bin_PROGRAMS += pyrrha-agent
pyrrha_agent_SOURCES = cmd/program.c cmd/program.h cmd/pyrrha_agent.c cmd/parca_agent_flags.h $(SELFPROF_HEAP)
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
EXTRA_DIST += deploy/pyrrha.service deploy/pyrrha.sysusers.conf deploy/pyrrha.yml

bin_PROGRAMS += pyrtool
pyrtool_SOURCES = cmd/configuration.c cmd/configuration.h cmd/query_config.c cmd/query_config.h cmd/storage_config.c cmd/storage_config.h cmd/pyrtool.c cmd/tool_check.c cmd/tool_login.c cmd/tool.h cmd/tool_pprof.c cmd/tool_query.c cmd/tool_rules.c cmd/tool_rules_try.c cmd/tool_thresholds.c cmd/tool_thresholds.h cmd/rule_tests.c cmd/rule_tests.h cmd/tool_export.c cmd/tool_import.c cmd/tool_notes.c cmd/tool_tsdb.c cmd/tool_tsdb.h
pyrtool_LDADD = libweb.a librules.a $(HTTPD_LIBS) $(REMOTE_LIBS) $(PROMQL_LIBS) $(SCRAPER_LIBS) $(TSDB_LIBS) $(PPROF_LIBS) $(FETCH_LIBS) $(JANSSON_LIBS)
EXTRA_DIST += cmd/pyrtool_test.sh cmd/pyrtool_rules_test.sh cmd/promtool_verdicts.txt
TESTS += cmd/pyrtool_test.sh cmd/pyrtool_rules_test.sh
