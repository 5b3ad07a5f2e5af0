#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ./check's reading of logs: what counts, that one test more than may want a second try fails the run, which tests are called slow.
. "${top_srcdir:-.}/tests/verdicts.sh"
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
bad=0
is() { [ "$1" = "$2" ] || { echo "wanted: $2"; echo "got:    $1"; bad=1; }; }

cat >"$log" <<'END'
PASS: a_test
PASS: a_test
XFAIL: b_test
FLAKY: c_test
FLAKY c_test (exit status: 1)
FLAKY: e2e api.x (3.2 s): "no" (1.0 s)
FAIL: d_test
FAIL d_test (exit status: 1)
SKIP: e2e y (0.0 s): no (chromium)
ERROR: this is no verdict
ERROR: e_test
PASS: e2e z.z (12.5 s)
PASS: e2e quick (0.1 s)
TIME: tests/lint/banned 7.05 s
TIME: c_test 11.00 s, 1.25 + 0.50 s of CPU
TIME: c_test 11.00 s, 1.25 + 0.50 s of CPU
PASS: e2e x.y (9.5 s, 3.1 s of CPU)
END
count "$log"
is "$passed $failed $skipped $flaky" "5 2 1 2"
too_flaky >/dev/null && { echo "two are too many"; bad=1; }
most=$MOST_FLAKY
is "$(slowest "$log")" "   slowest: e2e z.z 12.5 s, c_test 11.00 s (1.75 of CPU), e2e x.y 9.5 s (3.1 of CPU), tests/lint/banned 7.05 s, e2e quick 0.1 s"
seq -f 'TIME: t%g 1.5 s' 20 >>"$log"
is "$(slowest "$log" | tr ',' '\n' | wc -l)" 10
seq -f 'FLAKY: f%g_test' 3 "$most" >"$log"
count "$log"
too_flaky >/dev/null && { echo "$most are too many"; bad=1; }
echo "FLAKY: last_test" >"$log"
count "$log"
too_flaky >/dev/null || { echo "$((most + 1)) are not too many"; bad=1; }
is "$failed" 3
: >"$log"
is "$(slowest "$log")" ""

is "$("${top_srcdir:-.}/tests/timed" bash -c 'echo said; exit 3' 2>&1 | sed -E 's/[0-9.]+ (s|\+)/N \1/g' | tr '\n' '|')" "said||TIME: bash N s, N + N s of CPU|"
"${top_srcdir:-.}/tests/timed" bash -c 'exit 3' 2>/dev/null
is $? 3
exit $bad
