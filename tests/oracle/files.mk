# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
  tests/oracle/go.mod \
  tests/oracle/go.sum \
  tests/oracle/main.go \
  tests/oracle/run \
  tests/oracle/template/go.mod \
  tests/oracle/template/go.sum \
  tests/oracle/template/main.go \
  tests/oracle/template/random.go \
  tests/oracle/template_cases.txt \
  $(NULL)
