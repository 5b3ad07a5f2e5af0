# Fuzz targets. fuzz_NAME.c has the target, corpus/NAME/ its seeds. The program fuzz_NAME is a test that replays the seeds;
# where ./configure was told --enable-fuzz (CC=clang --enable-sanitize=address,undefined) it is the fuzzer:
# ./fuzz_NAME NEW_INPUTS $(srcdir)/tests/fuzz/corpus/NAME
include tests/fuzz/files.mk
FUZZERS = fuzz_pprof fuzz_config fuzz_relabel fuzz_promql fuzz_tsdb \
  fuzz_elf fuzz_gopclntab fuzz_ehframe fuzz_perfmap fuzz_kallsyms fuzz_demangle fuzz_dwarfindex fuzz_kube \
  fuzz_sdlists fuzz_kubesd fuzz_sdanswers fuzz_s3 fuzz_dns fuzz_legacy fuzz_folded fuzz_textmetrics fuzz_template fuzz_rules fuzz_ruletests fuzz_authorization fuzz_webconfig fuzz_segment fuzz_generation fuzz_dictionary \
  fuzz_pycode fuzz_hotspot fuzz_v8code fuzz_question fuzz_answer
EXTRA_DIST += tests/fuzz/corpus

if FUZZ
FUZZ_MAIN = tests/fuzz/fuzz.h
EXTRA_PROGRAMS += $(FUZZERS)
CLEANFILES += $(FUZZERS)
noinst_DATA += $(FUZZERS)
EXTRA_DIST += tests/fuzz/replay.c
else
FUZZ_MAIN = tests/fuzz/fuzz.h tests/fuzz/replay.c
check_PROGRAMS += $(FUZZERS)
TESTS += $(FUZZERS)
endif

# $(FUZZ_LIBS) is libFuzzer with its main, or nothing.
fuzz_pprof_SOURCES = tests/fuzz/fuzz_pprof.c tests/fuzz/fuzz_profile.h lib/pprof/oracle.c lib/pprof/oracle.h $(FUZZ_MAIN)
fuzz_pprof_LDADD = $(PPROF_LIBS) $(FUZZ_LIBS)
fuzz_legacy_SOURCES = tests/fuzz/fuzz_legacy.c tests/fuzz/fuzz_profile.h $(FUZZ_MAIN)
fuzz_legacy_LDADD = $(PPROF_LIBS) $(FUZZ_LIBS)
fuzz_folded_SOURCES = tests/fuzz/fuzz_folded.c $(FUZZ_MAIN)
fuzz_folded_LDADD = $(PPROF_LIBS) $(FUZZ_LIBS)
fuzz_config_SOURCES = tests/fuzz/fuzz_config.c $(FUZZ_MAIN)
fuzz_config_LDADD = $(BUCKET_LIBS) $(SCRAPER_LIBS) $(FUZZ_LIBS)
fuzz_textmetrics_SOURCES = tests/fuzz/fuzz_textmetrics.c $(FUZZ_MAIN)
fuzz_textmetrics_LDADD = $(SCRAPER_LIBS) $(FUZZ_LIBS)
fuzz_relabel_SOURCES = tests/fuzz/fuzz_relabel.c $(FUZZ_MAIN)
fuzz_relabel_LDADD = $(MODEL_LIBS) $(FUZZ_LIBS)
fuzz_promql_SOURCES = tests/fuzz/fuzz_promql.c $(FUZZ_MAIN)
fuzz_promql_LDADD = $(PROMQL_LIBS) $(FUZZ_LIBS)
fuzz_tsdb_SOURCES = tests/fuzz/fuzz_tsdb.c $(FUZZ_MAIN)
fuzz_tsdb_LDADD = $(TSDB_LIBS) $(FUZZ_LIBS)
fuzz_generation_SOURCES = tests/fuzz/fuzz_generation.c $(FUZZ_MAIN)
fuzz_generation_LDADD = $(TSDB_LIBS) $(FUZZ_LIBS)
fuzz_elf_SOURCES = tests/fuzz/fuzz_elf.c $(FUZZ_MAIN)
fuzz_elf_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_gopclntab_SOURCES = tests/fuzz/fuzz_gopclntab.c $(FUZZ_MAIN)
fuzz_gopclntab_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_ehframe_SOURCES = tests/fuzz/fuzz_ehframe.c $(FUZZ_MAIN)
fuzz_ehframe_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_perfmap_SOURCES = tests/fuzz/fuzz_perfmap.c $(FUZZ_MAIN)
fuzz_perfmap_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_kallsyms_SOURCES = tests/fuzz/fuzz_kallsyms.c $(FUZZ_MAIN)
fuzz_kallsyms_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_v8code_SOURCES = tests/fuzz/fuzz_v8code.c $(FUZZ_MAIN)
fuzz_v8code_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_pycode_SOURCES = tests/fuzz/fuzz_pycode.c $(FUZZ_MAIN)
fuzz_pycode_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_hotspot_SOURCES = tests/fuzz/fuzz_hotspot.c $(FUZZ_MAIN)
fuzz_hotspot_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_demangle_SOURCES = tests/fuzz/fuzz_demangle.c $(FUZZ_MAIN)
fuzz_demangle_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_dwarfindex_SOURCES = tests/fuzz/fuzz_dwarfindex.c $(FUZZ_MAIN)
fuzz_dwarfindex_LDADD = $(AGENT_LIBS) $(FUZZ_LIBS)
fuzz_kube_SOURCES = tests/fuzz/fuzz_kube.c $(FUZZ_MAIN)
fuzz_kube_LDADD = $(KUBE_LIBS) $(FUZZ_LIBS)
# What discovery is told.
fuzz_sdlists_SOURCES = tests/fuzz/fuzz_sdlists.c tests/fuzz/sd.h $(FUZZ_MAIN)
fuzz_sdlists_LDADD = $(DISCOVERY_LIBS) $(FUZZ_LIBS)
fuzz_kubesd_SOURCES = tests/fuzz/fuzz_kubesd.c tests/fuzz/sd.h $(FUZZ_MAIN)
fuzz_kubesd_LDADD = $(DISCOVERY_LIBS) $(FUZZ_LIBS)
fuzz_s3_SOURCES = tests/fuzz/fuzz_s3.c $(FUZZ_MAIN)
fuzz_s3_LDADD = $(BUCKET_LIBS) $(FUZZ_LIBS)
fuzz_sdanswers_SOURCES = tests/fuzz/fuzz_sdanswers.c tests/fuzz/sd.h $(FUZZ_MAIN)
fuzz_sdanswers_LDADD = $(DISCOVERY_LIBS) $(FUZZ_LIBS)
fuzz_dns_SOURCES = tests/fuzz/fuzz_dns.c tests/fuzz/sd.h $(FUZZ_MAIN)
fuzz_dns_LDADD = $(DISCOVERY_LIBS) $(FUZZ_LIBS)
fuzz_template_SOURCES = tests/fuzz/fuzz_template.c $(FUZZ_MAIN)
fuzz_template_LDADD = $(RULES_LIBS) $(FUZZ_LIBS)
fuzz_rules_SOURCES = tests/fuzz/fuzz_rules.c $(FUZZ_MAIN)
fuzz_rules_LDADD = $(RULES_LIBS) $(FUZZ_LIBS)
fuzz_ruletests_SOURCES = tests/fuzz/fuzz_ruletests.c cmd/rule_tests.c cmd/rule_tests.h $(FUZZ_MAIN)
# What clients send.
fuzz_webconfig_SOURCES = tests/fuzz/fuzz_webconfig.c $(FUZZ_MAIN)
fuzz_webconfig_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(FUZZ_LIBS)
fuzz_authorization_SOURCES = tests/fuzz/fuzz_authorization.c $(FUZZ_MAIN)
fuzz_authorization_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(FUZZ_LIBS)
fuzz_ruletests_LDADD = $(RULES_LIBS) $(FUZZ_LIBS)
fuzz_segment_SOURCES = tests/fuzz/fuzz_segment.c $(FUZZ_MAIN)
fuzz_segment_LDADD = $(REMOTE_LIBS) $(FUZZ_LIBS)
# What other servers answer.
fuzz_dictionary_SOURCES = tests/fuzz/fuzz_dictionary.c $(FUZZ_MAIN)
fuzz_dictionary_LDADD = $(FLEET_LIBS) $(FUZZ_LIBS)
# What servers send each other.
fuzz_question_SOURCES = tests/fuzz/fuzz_question.c $(FUZZ_MAIN)
fuzz_question_LDADD = $(FLEET_LIBS) $(FUZZ_LIBS)
fuzz_answer_SOURCES = tests/fuzz/fuzz_answer.c $(FUZZ_MAIN)
fuzz_answer_LDADD = $(FLEET_LIBS) $(FUZZ_LIBS)
