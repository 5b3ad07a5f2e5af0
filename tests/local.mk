# Lint, fixtures and end-to-end tests; unit tests lie beside the code they test.
LINT = tests/lint/layers tests/lint/circles tests/lint/banned tests/lint/files tests/lint/structs tests/lint/locks tests/lint/exports tests/lint/format tests/lint/selftest
if HAVE_PYTHON3
TESTS += $(LINT)
endif
TESTS += tests/verdicts_test.sh
EXTRA_DIST += tests/verdicts_test.sh tests/verdicts.sh tests/timed
EXTRA_DIST += quickstart .ci/run .gitignore .git-blame-ignore-revs deploy/need.sh deploy/packages.txt deploy/quickstart.yml deploy/quickstart.rules.yml \
  docs/ARCHITECTURE.md docs/discovery.md docs/discovery-kubernetes.md docs/agent.md docs/runtimes.md docs/profile-formats.md docs/scrape-objects.md \
  $(LINT) .clang-format tests/lint/tree.py tests/lint/circles.txt tests/lint/layers.txt tests/lint/libraries.txt \
  tests/fixtures/echoserver/main.go tests/fixtures/echoserver/go.mod tests/fixtures/echoserver/go.sum
E2E = tests/e2e/run tests/e2e/test_object_jobs.py tests/e2e/page.mjs tests/e2e/harness.py tests/e2e/test_containers.py tests/e2e/test_admin.py tests/e2e/test_agent.py tests/e2e/test_agent_labels.py tests/e2e/test_agent_memory.py tests/e2e/test_memory.py tests/e2e/test_agent_mix.py tests/e2e/test_runtime_known.py tests/e2e/test_gaps.py tests/e2e/test_agent_symbols.py tests/e2e/test_agent_churn.py tests/e2e/test_agent_http.py tests/e2e/kube_api.py tests/e2e/kube_sd_expected.json tests/e2e/test_discovery_kube.py tests/e2e/page_agent.mjs tests/e2e/page_explore.mjs tests/e2e/test_page_explore.py tests/e2e/browser.mjs tests/e2e/test_api.py tests/e2e/test_bad_targets.py tests/e2e/test_attack_targets.py tests/e2e/test_config.py \
  tests/e2e/test_baselines.py tests/e2e/test_clock.py tests/e2e/test_crash.py tests/e2e/test_damage.py tests/e2e/test_page.py tests/e2e/page_around.mjs tests/e2e/test_page_around.py tests/e2e/test_pprof.py tests/e2e/test_program.py tests/e2e/test_promql_oracle.py \
  tests/e2e/test_quickstart.py tests/e2e/promql_queries.py tests/e2e/remote_write.py \
  tests/e2e/test_pprof_oracle.py tests/e2e/test_profile_formats.py tests/e2e/pprof_file.py \
  tests/e2e/test_agent_filter.py tests/e2e/test_offcpu.py tests/e2e/test_query_limits.py tests/e2e/test_replicas.py tests/e2e/test_rules.py tests/e2e/test_rules_check.py tests/e2e/test_rules_past.py tests/e2e/test_selfprof.py tests/e2e/test_federate.py tests/e2e/test_remote_write_out.py tests/e2e/raw_samples.py tests/e2e/test_metrics_oracle.py tests/e2e/test_values.py tests/e2e/test_small_print.py \
  tests/e2e/test_format.py tests/format/reader.py tests/format/remote.py tests/format/values.py tests/format/rocks.py
EXTRA_DIST += tests/e2e/test_alertmanager.py tests/e2e/test_alerts_oracle.py
EXTRA_DIST += tests/e2e/test_parca_flags.py
EXTRA_DIST += tests/e2e/test_runtimes_java.py tests/e2e/java_stacks.py tests/e2e/test_runtimes_node.py tests/e2e/node_stacks.py
EXTRA_DIST += tests/e2e/test_runtimes.py tests/e2e/runtime_stacks.py tests/fixtures/runtimes deploy/quickstart.py
EXTRA_DIST += tests/e2e/test_compose.py deploy/compose.yml deploy/compose/pyrrha.yml
EXTRA_DIST += tests/e2e/pod.py tests/e2e/test_pods.py
EXTRA_DIST += tests/e2e/test_units.py
EXTRA_DIST += tests/e2e/test_pins.py tests/e2e/test_page_share.py tests/e2e/page_share.mjs
EXTRA_DIST += tests/e2e/test_web_config.py tests/e2e/test_login.py
EXTRA_DIST += tests/e2e/oci.py tests/e2e/test_images.py docs/install.md deploy/image.sh deploy/Containerfile.server deploy/Containerfile.demo .dockerignore
EXTRA_DIST += tests/e2e/test_attack_queries.py tests/attack/deep_queries.py tests/attack/bad_regex.py
EXTRA_DIST += tests/e2e/test_attack_http.py tests/attack/cross_site.py tests/attack/half_open.py tests/attack/drip.py tests/attack/expensive_queries.py tests/attack/slow_reader.py
EXTRA_DIST += tests/e2e/test_config_reload.py tests/e2e/test_prometheus_files.py tests/e2e/test_relabel_oracle.py tests/fixtures/prometheus
EXTRA_DIST += tests/e2e/test_attack_names.py tests/attack/invent_names.py
EXTRA_DIST += tests/attack/heavy_bodies.py tests/attack/hostile_targets.py
EXTRA_DIST += tests/e2e/test_discovery_nets.py
EXTRA_DIST += tests/e2e/test_rules_view.py tests/e2e/page_rules.mjs tests/e2e/page_login.mjs tests/e2e/test_page_graph.py tests/e2e/page_graph.mjs
EXTRA_DIST += tests/e2e/test_attack_all.py tests/e2e/test_table.py tests/e2e/test_page_numbers.py tests/e2e/page_numbers.ts tests/e2e/large_profile.py
EXTRA_DIST += tests/e2e/kube_real.py tests/e2e/test_kube_real.py
EXTRA_DIST += tests/e2e/test_discovery.py
EXTRA_DIST += tests/e2e/test_page_compare.py tests/e2e/page_compare.mjs
EXTRA_DIST += tests/e2e/test_page_people.py tests/e2e/page_people.mjs docs/page.md docs/img
EXTRA_DIST += tests/e2e/test_page_flame.py tests/e2e/page_flame.mjs
EXTRA_DIST += deploy/kubernetes/README.md deploy/kubernetes/agent.yml deploy/kubernetes/crds.yml deploy/kubernetes/server.yml \
  deploy/kubernetes/make-secret deploy/kubernetes/example/shop.yml docs/kubernetes.md
EXTRA_DIST += tests/kubernetes/openapi.py tests/kubernetes/openapi-1.35.json tests/kubernetes/schema.py tests/e2e/test_manifests.py \
  tests/e2e/test_manifests_real.py
# The starter rules.
STARTER_RULES = deploy/rules/cpu.yml deploy/rules/heap.yml deploy/rules/health.yml
EXTRA_DIST += $(STARTER_RULES) deploy/rules/tests/cpu.yml deploy/rules/tests/heap.yml deploy/rules/tests/health.yml \
  deploy/rules/rules_test.sh docs/runbooks.md
TESTS += deploy/rules/rules_test.sh
if HAVE_CMOCKA
check_PROGRAMS += starter_rules_test
TESTS += starter_rules_test
starter_rules_test_SOURCES = tests/statistics/starter_rules_test.c rules/testkit.h
starter_rules_test_LDADD = $(RULES_LIBS) $(PPROF_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += recorded_hour_test
TESTS += recorded_hour_test
recorded_hour_test_SOURCES = tests/statistics/recorded_hour_test.c
recorded_hour_test_LDADD = $(RULES_LIBS) $(TSDB_TEST_LIBS)
endif
EXTRA_DIST += $(E2E) tests/tsan.supp tests/kernels/run tests/kernels/init tests/kernels/kernel_fixture.c tests/kernels/dropcaps.c \
  tests/kernels/silent.c tests/kernels/silent_program.c

# The end-to-end tests need the built programs, go and a few minutes: ./check runs them.
check-e2e: all
	$(AM_V_at)$(srcdir)/tests/e2e/run --build .
.PHONY: check-e2e
include tests/crash/local.mk
include tests/oracle/local.mk
include tests/fuzz/local.mk

# The script ./check goes into the tarball by hand: in EXTRA_DIST its name would mean the target of that name.
dist-hook: check-dist-hook
check-dist-hook:
	cp $(srcdir)/check $(distdir)/check
.PHONY: check-dist-hook
