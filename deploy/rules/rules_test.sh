#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The starter rules load, and their unit tests pass. Each alert has a runbook and a test in which it fires, and the metrics
# that they use exist.
tool=$top_builddir/pyrtool
cd "$top_srcdir" || exit 99
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}
"$tool" check rules --lint-fatal deploy/rules/*.yml deploy/quickstart.rules.yml || fail "check rules"
"$tool" test rules deploy/rules/tests/*.yml || fail "test rules"
alerts=$(sed -n 's/^ *- alert: //p' deploy/rules/*.yml)
[ -n "$alerts" ] || fail "no alerts"
for alert in $alerts; do
	grep -A1 "alertname: $alert\$" deploy/rules/tests/*.yml | grep -q exp_alerts || fail "no test in which $alert fires"
	anchor=$(echo "$alert" | tr '[:upper:]' '[:lower:]')
	grep -q "docs/runbooks.md#$anchor\$" deploy/rules/*.yml || fail "$alert names no runbook"
	grep -qi "^## $anchor\$" docs/runbooks.md || fail "no runbook of $alert"
done
for metric in $(grep -ho 'pyrrha_[a-z_]*' deploy/rules/*.yml | sort -u); do
	[ "$metric" = pyrrha_ ] || grep -rq --include=metrics.c "\"$metric\"" agent tsdb rules scraper || fail "no metric $metric"
done
exit $failed
