# SPDX-License-Identifier: Apache-2.0
# What ./check makes of the lines that its steps print, to be sourced: how many passed, failed, were skipped, passed only when tried
# again (FLAKY), and which took longest.
passed=0 failed=0 skipped=0 flaky=0
MOST_FLAKY=2 # of a run with --all or --long; the other tiers try nothing again

# verdicts PATTERN LOG: the lines of that verdict that a runner printed, each once (automake repeats them in its report)
verdicts() { grep -aE "^($1): [^ ]+( .*)?$" "$2" | grep -vE '^ERROR: [^ ]+ ' | sort -u; }

# count LOG: adds up the verdicts
count() {
	passed=$((passed + $(verdicts 'PASS|XFAIL' "$1" | wc -l)))
	failed=$((failed + $(verdicts 'FAIL|XPASS|ERROR' "$1" | wc -l)))
	skipped=$((skipped + $(verdicts SKIP "$1" | wc -l)))
	flaky=$((flaky + $(verdicts FLAKY "$1" | wc -l)))
}

# slowest LOG: the ten tests that took longest, on a line, with how much of a processor they used if that is known; of unit tests tests/timed
# says how long, others say it in brackets
slowest() {
	sed -nE 's/^TIME: ([^ ]+) ([0-9.]+) s(, ([0-9.]+) \+ ([0-9.]+) s of CPU)?$/\2 \1 - \4 \5/p
		s/^(PASS|XFAIL|FAIL): ([^(]*[^ (]) \(([0-9.]+) s(, ([0-9.]+) s of CPU)?\).*$/\3 \2 - \5/p' "$1" | sort -rn -s -k1,1 |
		awk '!seen[$0]++ && n++ < 10 { s = $1 " s"; cpu = $0; sub(/.* - ?/, "", cpu); sub(/^[^ ]+ /, ""); sub(/ -.*/, "")
			if (split(cpu, c, " ")) s = s " (" c[1] + c[2] " of CPU)"; all = all (n > 1 ? ", " : "") $0 " " s }
			END { if (n) print "   slowest: " all }'
}

# too_flaky: says so, as a failure, if more tests wanted a second try than may
too_flaky() {
	[ "$flaky" -gt "$MOST_FLAKY" ] || return 1
	echo "FAIL: check ($flaky tests passed only when they were tried again; at most $MOST_FLAKY may)"
	failed=$((failed + 1))
}
