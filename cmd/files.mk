# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
pyrrha_SOURCES = \
  cmd/configuration.c \
  cmd/configuration.h \
  cmd/flags.c \
  cmd/flags.h \
  cmd/objects_config.c \
  cmd/objects_config.h \
  cmd/parca_flags.h \
  cmd/program.c \
  cmd/program.h \
  cmd/pyrrha.c \
  cmd/query_config.c \
  cmd/query_config.h \
  cmd/storage_config.c \
  cmd/storage_config.h \
  $(SELFPROF_HEAP) \
  $(NULL)
pyrrha_agent_SOURCES = \
  cmd/parca_agent_flags.h \
  cmd/program.c \
  cmd/program.h \
  cmd/pyrrha_agent.c \
  $(SELFPROF_HEAP) \
  $(NULL)
pyrtool_SOURCES = \
  cmd/configuration.c \
  cmd/configuration.h \
  cmd/objects_config.c \
  cmd/objects_config.h \
  cmd/pyrtool.c \
  cmd/query_config.c \
  cmd/query_config.h \
  cmd/rule_tests.c \
  cmd/rule_tests.h \
  cmd/storage_config.c \
  cmd/storage_config.h \
  cmd/tool.h \
  cmd/tool_bucket.c \
  cmd/tool_bucket.h \
  cmd/tool_bucket_contents.c \
  cmd/tool_bucket_get.c \
  cmd/tool_bucket_open.c \
  cmd/tool_bucket_verify.c \
  cmd/tool_check.c \
  cmd/tool_export.c \
  cmd/tool_import.c \
  cmd/tool_login.c \
  cmd/tool_notes.c \
  cmd/tool_pprof.c \
  cmd/tool_query.c \
  cmd/tool_rules.c \
  cmd/tool_rules_try.c \
  cmd/tool_thresholds.c \
  cmd/tool_thresholds.h \
  cmd/tool_tsdb.c \
  cmd/tool_tsdb.h \
  $(NULL)
EXTRA_DIST += \
  cmd/flags_test.sh \
  cmd/promtool_verdicts.txt \
  cmd/pyrtool_rules_test.sh \
  cmd/pyrtool_test.sh \
  $(NULL)
TESTS += \
  cmd/flags_test.sh \
  cmd/pyrtool_rules_test.sh \
  cmd/pyrtool_test.sh \
  $(NULL)
