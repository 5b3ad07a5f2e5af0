#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The starter rules (deploy/rules) load, and their unit tests pass. Each alert has a runbook, which it links to, and a test in which
# it fires on each kind of host, and the metrics that they use exist. The change that the runbooks give to tell hosts apart does so.
tool=$top_builddir/pyrtool
cd "$top_srcdir" || exit 99
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}
# The whole folder becomes a ConfigMap (kubectl create configmap --from-file).
for file in deploy/rules/*; do
	case $file in *.yml | deploy/rules/tests) ;; *) fail "$file is no rule file" ;; esac
done
"$tool" check rules --lint-fatal deploy/rules/*.yml deploy/quickstart.rules.yml || fail "check rules"
"$tool" test rules deploy/rules/tests/*.yml || fail "test rules"
# The same service on two hosts, by node: each alert is about one host, and so are its annotations.
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 99
change=$(sed -n "s/^sed -i \('.*'\) rules\/cpu.yml$/\1/p" docs/runbooks.md)
eval "sed $change" <deploy/rules/cpu.yml >"$dir/cpu.yml"
cat >"$dir/test.yml" <<'END'
rule_files: [cpu.yml]
evaluation_interval: 4m
tests:
- interval: 1m
  input_series:
  - series: 'on_cpu{job="agent", node="web1", unit="shop.service"} period=52631578'
    profiles: |
      0..100: main;serve;parse 2400000000 | main;serve;render 9600000000
      101..200: main;serve;parse 2400000000 | main;serve;render 8600000000 | main;serve;audit 1000000000
      1441..1470: main;serve;parse 3600000000 | main;serve;render 8400000000
  - series: 'on_cpu{job="agent", node="web2", unit="shop.service"} period=52631578'
    profiles: |
      0..1470: main;serve;send 5500000000 | main;serve;wait 5500000000 | main;serve;audit 1000000000
  alert_rule_test:
  - eval_time: 12m
    alertname: FunctionEatsCPU
    exp_alerts:
    - exp_labels: {severity: warning, job: agent, node: web1, unit: shop.service, function: render}
      exp_annotations:
        flame_graph: '/?q=merge%28on_cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29+or+merge%28cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29&from=-2880&to=720&view=flame'
        functions: "80.0% render\n20.0% parse"
        runbook_url: '/runbooks#functioneatscpu'
        summary: 'render takes at least 77.37% of the CPU of shop.service'
  - eval_time: 116m
    alertname: NewHotFunction
    exp_alerts:
    - exp_labels: {severity: warning, job: agent, node: web1, unit: shop.service, function: audit}
      exp_annotations:
        difference: '/?q=diff%28merge%28on_cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29+or+merge%28cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29%2C+merge%28on_cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B1h%5D+offset+20m%29+or+merge%28cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B1h%5D+offset+20m%29%2C+%22share%22%29&from=3360&to=6960&view=flame'
        runbook_url: '/runbooks#newhotfunction'
        summary: 'audit is new in shop.service, and takes at least 6.756% of its CPU'
  - eval_time: 24h16m
    alertname: FunctionShareUp
    exp_alerts:
    - exp_labels: {severity: page, job: agent, node: web1, unit: shop.service}
      exp_annotations:
        difference: '/?q=diff%28merge%28on_cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29+or+merge%28cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B10m%5D%29%2C+merge%28on_cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B30m%5D+offset+23h50m%29+or+merge%28cpu%7Bnamespace%3D%22%22%2Ccontainer%3D%22%22%2Cunit%3D%22shop.service%22%2Cnode%3D%22web1%22%2Cjob%3D%22agent%22%7D%5B30m%5D+offset+23h50m%29%2C+%22share%22%29&from=83760&to=87360&view=flame'
        more: "10.0% parse\n-10.0% render"
        runbook_url: '/runbooks#functionshareup'
        summary: 'a function of shop.service has 10% more of its CPU than yesterday'
END
"$tool" test rules "$dir/test.yml" || fail "the rules do not tell hosts apart after the change in docs/runbooks.md"
# "ALERT ANCHOR": what each alert links to
links=$(awk '/^ *- alert: /{alert=$3} /runbook_url: .{{ \$externalURL }}\/runbooks#/{sub(/.*#/, ""); sub(/.$/, ""); print alert, $0}' deploy/rules/*.yml)
alerts=$(sed -n 's/^ *- alert: //p' deploy/rules/*.yml)
hosts=$(grep -c '^- name: ' deploy/rules/tests/hosts.yml)
[ -n "$alerts" ] && [ "$hosts" -gt 2 ] || fail "no alerts, or no kinds of hosts"
for alert in $alerts; do
	wanted=$hosts
	[ "$alert" != AgentUnwindTables ] || wanted=$((hosts - 1)) # on the hosts without an agent there is none to fire
	fires=$(grep -A1 "alertname: $alert\$" deploy/rules/tests/hosts.yml | grep -c exp_alerts)
	[ "$fires" -eq "$wanted" ] || fail "$alert fires in tests of $fires kinds of hosts, not $wanted"
	anchor=$(echo "$alert" | tr '[:upper:]' '[:lower:]')
	echo "$links" | grep -qx "$alert $anchor" || fail "$alert does not link to its runbook"
	grep -qi "^## $anchor\$" docs/runbooks.md || fail "no runbook of $alert"
done
for metric in $(grep -ho 'pyrrha_[a-z_]*' deploy/rules/*.yml | sort -u); do
	[ "$metric" = pyrrha_ ] || grep -rq --include='*.c' "\"$metric\"" agent cmd tsdb rules scraper || fail "no metric $metric"
done
exit $failed
