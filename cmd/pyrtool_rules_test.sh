#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pyrtool check rules and test rules on Prometheus's own files: the exit codes of promtool 3.14, which promtool_verdicts.txt has.
tool=$top_builddir/pyrtool
verdicts=$top_srcdir/cmd/promtool_verdicts.txt
cd "$top_srcdir/tests/fixtures/prometheus" || exit 99
n=0 failed=0
while read -r want words; do
	# shellcheck disable=SC2086
	said=$("$tool" $words 2>&1)
	got=$?
	n=$((n + 1))
	[ $got -eq "$want" ] && continue
	echo "FAIL: pyrtool $words: $got, promtool: $want"
	echo "$said" | head -n 10
	failed=$((failed + 1))
done <"$verdicts"
# A rule sees nothing that comes later: at 2m the fourth value is not there yet.
dir=$(mktemp -d) || exit 99
echo 'groups: [{name: a, rules: [{record: r, expr: "m offset -1m"}]}]' >"$dir/r.yml"
cat >"$dir/t.yml" <<END
rule_files: [r.yml]
tests:
- input_series: [{series: m, values: '1 2 3 4'}]
  promql_expr_test: [{expr: r, eval_time: 2m, exp_samples: [{labels: r, value: 3}]}]
END
"$tool" test rules "$dir/t.yml" || failed=$((failed + 1))
rm -r "$dir"
junit=$(mktemp) || exit 99
"$tool" test rules --junit="$junit" promtool/failing.yml promtool/unittest.yml >/dev/null 2>&1
grep -q '<testsuite name="promtool/failing.yml" tests="2" failures="4" errors="0"' "$junit" || {
	echo "FAIL: the report: $(cat "$junit")"
	failed=$((failed + 1))
}
rm -f "$junit"
echo "$n calls, $failed differ"
[ $n -gt 0 ] && [ $failed -eq 0 ]
