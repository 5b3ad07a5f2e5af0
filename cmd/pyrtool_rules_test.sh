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
# Profiles, as tests/lang writes them; they come one by one, too.
echo 'groups: [{name: a, rules: [{alert: A, expr: "self_share(merge(cpu[5m])) > 0.5"}, {record: n, expr: "sum(cpu offset -1m)"}]}]' >"$dir/r.yml"
cat >"$dir/t.yml" <<END
rule_files: [r.yml]
tests:
- interval: 30s
  start_timestamp: 2026-01-01T00:00:00Z
  input_series:
  - series: cpu{job="a"} period=10000000
    profiles: |
      # index of the interval: stacks
      0..3: main;f 20000000 | main;g 20000000
      4..20: main;f 50000000
      @630: stale
  alert_rule_test:
  - {eval_time: 1m, alertname: A}
  - {eval_time: 2m, alertname: A, exp_alerts: [{exp_labels: {function: f}}]}
  promql_expr_test:
  - {expr: 'samples(merge(cpu[3m]))', eval_time: 3m, exp_samples: [{labels: '{}', value: 27}]}
  - {expr: n, eval_time: 1m, exp_samples: [{labels: n, value: 0.04}]}
  - {expr: cpu, eval_time: 11m}
END
"$tool" test rules "$dir/t.yml" || failed=$((failed + 1))
# What reads a series of native histograms, which are not supported, is an error, not another verdict; what does not is tested.
echo 'groups: [{name: a, rules: [{record: n, expr: "sum(m)"}]}]' >"$dir/r.yml"
cat >"$dir/t.yml" <<END
rule_files: [r.yml]
tests:
- input_series: [{series: h, values: '{{schema:0 count:1 sum:1}}'}, {series: m, values: '1 1 1'}]
  promql_expr_test: [{expr: n, eval_time: 1m, exp_samples: [{labels: n, value: 1}]}]
END
"$tool" test rules "$dir/t.yml" || failed=$((failed + 1))
echo '  - {expr: absent(h), eval_time: 1m, exp_samples: [{labels: "{}", value: 1}]}' >"$dir/more"
sed -i 's/promql_expr_test: .*/promql_expr_test:/' "$dir/t.yml" && cat "$dir/more" >>"$dir/t.yml"
for what in expression rule; do
	said=$("$tool" test rules "$dir/t.yml" 2>&1) || true
	case $said in
	*"reads h, whose native histograms are not supported"*) ;;
	*) echo "FAIL: a histogram read by the $what: $said" && failed=$((failed + 1)) ;;
	esac
	sed -i 's/absent(h)/n/' "$dir/t.yml"
	echo 'groups: [{name: a, rules: [{record: n, expr: "absent(h)"}]}]' >"$dir/r.yml"
done
# What is wrong with them is said; none of it is taken.
for bad in 'cpu{job="a"} perod=1|1: a 1' 'cpu{job="a"}|1' 'cpu{job="a"}|1..999999: a 1' 'cpu{job="a"}|1: a x' 'x{job="a"}|1: a 1' \
	'cpu{job="a"} duration=1e300|1: a 1' 'cpu{job="a"}|1e300: a 1'; do
	printf 'tests: [{input_series: [{series: %s, profiles: "%s"}]}]\n' "'${bad%|*}'" "${bad#*|}" >"$dir/t.yml"
	said=$("$tool" test rules "$dir/t.yml" 2>&1) && {
		echo "FAIL: taken: $bad: $said"
		failed=$((failed + 1))
	}
done
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
