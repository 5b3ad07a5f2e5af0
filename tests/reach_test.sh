#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of tests/reach, which chooses the tests of ./check --changed. Each test that its table names exists; for some files, the right tests are chosen.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES # of the make that runs this: it names tests
top=${top_srcdir:-.} build=${top_builddir:-.}
bad=0
complain() { echo "$*"; bad=1; }

e2e=$("$top/tests/e2e/run" --list) && [ -n "$e2e" ] || complain "tests/e2e/run --list names no test"
unit=$(make -C "$build" -s test-names | sed 's/^[^ ]* //')
words=$(sed -n '/^#/d; s/^[^|]*|//p' "$top/tests/reach.txt" | tr ' ' '\n' | sort -u)
for word in $words; do
	case $word in
	'e2e:*'|kernels|everything|nothing) ;;
	e2e:*) grep -qF -- "${word#e2e:}" <<<"$e2e" || complain "reach.txt: $word is in the name of no end-to-end test" ;;
	unit:*) grep -qxF -- "${word#unit:}" <<<"$unit" || complain "reach.txt: there is no test ${word#unit:}" ;;
	*) complain "reach.txt: $word is no word of the table" ;;
	esac
done

# says PATH LINE...: tests/reach prints each of these lines for a change of that file; with "no " before it, it does not
says() {
	local path=$1 said line
	shift
	said=$("$top/tests/reach" --build "$build" --tests "$build" "$path") || complain "tests/reach $path: exit status $?"
	for line; do
		if [ "${line#no }" != "$line" ]; then
			! grep -qxF -- "${line#no }" <<<"$said" || complain "$path: it should not reach: ${line#no }"
		else
			grep -qxF -- "$line" <<<"$said" || complain "$path: it does not reach: $line"
		fi
	done
}
says tsdb/log/hlog.c 'e2e crash.' 'unit holes_test' 'unit tests/lint/layers' 'unit tests/lint/locks' 'no e2e *' 'no unit agent_test' \
	'no unit tests/lint/selftest'
says rules/alert.c 'unit tests/rules_test.sh' 'e2e rules'
says bpf/python.h 'e2e runtimes.' kernels 'unit python_walk_test'
says docs/install.md 'e2e docs.' 'unit tests/lint/banned' 'unit tests/reference_test.sh' 'no unit tests/lint/locks' 'no e2e *'
says tests/e2e/test_login.py 'whole login.'
says tests/e2e/test_that_was_removed.py 'no e2e *' 'no whole that_was_removed.'
says tests/lint/tree.py 'unit tests/lint/selftest'
says tsdb/local.mk 'e2e *' 'unit holes_test' 'no unit tests/oracle/run'
says no/such/file 'e2e *' 'unit holes_test'
[ $bad = 0 ]
