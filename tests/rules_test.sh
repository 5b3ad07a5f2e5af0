#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The starter rules (deploy/rules) load, and their unit tests pass. Each alert has a runbook, which it links to, and a test in which
# it fires on each kind of host, and the metrics that they use exist.
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
	[ "$metric" = pyrrha_ ] || grep -rq --include=metrics.c "\"$metric\"" agent tsdb rules scraper || fail "no metric $metric"
done
exit $failed
