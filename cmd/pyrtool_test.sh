#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pyrtool on real profiles: what it prints against figures that google/pprof prints for the same files.
tool=$top_builddir/pyrtool
"$tool" check config "$top_srcdir/deploy/quickstart.yml" | grep -q 'quickstart.yml: good' || { echo "FAIL: check config"; exit 1; }
"$tool" check config "$top_srcdir/cmd/pyrtool_test.sh" >/dev/null 2>&1 && { echo "FAIL: check config of no configuration"; exit 1; }
"$tool" test language "$top_srcdir/tests/lang/math.test" | tail -n 1 | grep -q '^[1-9][0-9]* passed, 0 failed' || {
	echo "FAIL: test language"
	exit 1
}
"$tool" test language --output=json "$top_srcdir/tests/lang/time.test" | grep -q '^{"passed":[1-9][0-9]*,"failed":0,"skipped":0,' || {
	echo "FAIL: test language as JSON"
	exit 1
}
"$tool" check config --output=json "$top_srcdir/deploy/quickstart.yml" | grep -q '^\[{"good":true,"file":".*quickstart.yml",' || {
	echo "FAIL: check config as JSON"
	exit 1
}
"$tool" check web-config "$top_srcdir/deploy/quickstart.yml" | grep -q 'field scrape_configs: unknown' || { echo "FAIL: check web-config"; exit 1; }
# make login: a web configuration that is right, files for their owner alone, and it stays.
login=$(mktemp -d) || exit 99
bad_login() { echo "FAIL: make login: $1"; rm -rf "$login"; exit 1; }
echo short | "$tool" make login --password-stdin "$login/a" 2>/dev/null && bad_login "a short password"
"$tool" make login "$login/a" | grep -qE '^login: admin  password: [0-9a-f]{32}  ' || bad_login "no password is told"
"$tool" check web-config "$login/a/web.yml" | grep -q 'users: 1; tokens: 1;' || bad_login "check web-config"
[ "$(printf %s "$(cat "$login/a/token")" | sha256sum | cut -c1-64)" = "$(sed -n 's/.*sha256: //p' "$login/a/web.yml")" ] || bad_login "the token is another"
[ "$(stat -c %a "$login/a" "$login/a/web.yml" "$login/a/token" | tr '\n' ' ')" = "700 600 600 " ] || bad_login "others may read it"
cp -p "$login/a/web.yml" "$login/before"
"$tool" make login "$login/a" | grep -q 'is there already, and stays' || bad_login "it is made again"
cmp -s "$login/a/web.yml" "$login/before" || bad_login "another one is made"
echo 'a password' | "$tool" make login --user='a: b' --password-stdin "$login/b" 2>/dev/null
[ $? -eq 2 ] || bad_login "a name that YAML reads otherwise"
echo 'my own: password' | "$tool" make login --user=null --password-stdin "$login/b" | grep -q . && bad_login "a password is told that was given"
"$tool" check web-config "$login/b/web.yml" >/dev/null || bad_login "check web-config of a user called null"
rm -rf "$login"
"$tool" test language --output=xml "$top_srcdir/tests/lang/time.test" 2>/dev/null
[ $? -eq 2 ] || { echo "FAIL: an unknown form of output"; exit 1; }
[ "$("$tool" bucket --help | grep -c "^  bucket ")" -eq 6 ] || { echo "FAIL: the commands of the group bucket"; exit 1; }
[ "$("$tool" tsdb --help | grep -c '^  tsdb ')" -eq 6 ] || { echo "FAIL: the commands of a group"; exit 1; }
"$tool" tsdb nonsense 2>&1 >/dev/null | grep -q '^  tsdb verify DIR' || { echo "FAIL: an unknown command of a group"; exit 1; }
# tsdb import: a duration of 54 years, or of -1 ns, is ignored; the profile is stored with the time stamp of its file.
import=$(mktemp -d) || exit 99
bad_import() { echo "FAIL: tsdb import: $1"; rm -rf "$import"; exit 1; }
for place in 'a P\200\200\210\203\272\321\204\321\027' 'b P\377\377\377\377\377\377\377\377\377\001'; do
	mkdir -p "$import/files/job=${place%% *}"
	{
		printf '\012\004\010\001\020\002\022\006\012\001\001\022\001\005"\006\010\001"\002\010\001*\004\010\001\020\003' # one sample, of 5
		printf '2\0002\003cpu2\013nanoseconds2\001fH\200\200\250\261\343\237\347\313\027' # strings; the time, 1700000000 s
		printf "${place#* }"
	} >"$import/files/job=${place%% *}/x.pb"
done
said=$("$tool" tsdb import --output=json "$import/db" "$import/files") || bad_import "$said"
echo "$said" | grep -q '"withoutDuration":2,' || bad_import "$said"
[ "$("$tool" tsdb dump --output=json "$import/db" | grep -c '"value":"5","t":1700000000000,"duration":0,')" -eq 2 ] || bad_import "what is stored"
# One of 60 days is taken: its interval is cut, at 49 days.
mkdir -p "$import/long/job=c"
{
	head -c -10 "$import/files/job=a/x.pb"
	printf 'P\200\200\220\364\240\332\232\011'
} >"$import/long/job=c/x.pb"
said=$("$tool" tsdb import --output=json "$import/db" "$import/long") || bad_import "$said"
[ "$("$tool" tsdb dump --output=json "$import/db" | grep -c '"duration":5184000000000000,')" -eq 1 ] || bad_import "60 days: $said"
# A tree of two series, more files than a batch, of which one is none.
for i in $(seq 35); do
	for instance in i1 i2; do
		at="$import/tree/job=shop/instance=$instance"
		mkdir -p "$at"
		head -c -20 "$import/files/job=a/x.pb" >"$at/$i.pb" # without its time
		touch -d "@$((1700000000 + i * 60))" "$at/$i.pb"
	done
done
echo nonsense >"$import/tree/job=shop/17.pb"
said=$("$tool" tsdb import --output=json --name=process_cpu:delta "$import/tree-db" "$import/tree" 2>"$import/errors") && bad_import "no profile is one"
echo "$said" | grep -q '"profiles":70,"places":2,.*"bad":1' || bad_import "a tree: $said"
grep -q '17.pb' "$import/errors" || bad_import "$(cat "$import/errors")"
[ "$("$tool" tsdb dump --output=json "$import/tree-db" | grep -c '"value":"5","t":17000')" -eq 70 ] || bad_import "what is stored of a tree"
rm -rf "$import"
rules=$(mktemp) || exit 99
check_rules() { # STATUS WORDS FLAG...: on standard input
	status=$1 words=$2
	shift 2
	said=$("$tool" check rules "$@" <"$rules" 2>&1)
	got=$?
	{ [ $got -eq "$status" ] && echo "$said" | grep -q "$words"; } || { echo "FAIL: check rules $*: $got: $said"; rm -f "$rules"; exit 1; }
}
cat >"$rules" <<END
groups:
- name: a
  rules:
  - {record: x, expr: 1, labels: {a: b}}
  - {record: x, expr: 2, labels: {a: b}}
END
check_rules 0 '^lint error 1 duplicate rule(s) found.$'
check_rules 3 'Metric: x' --lint=all --lint-fatal
check_rules 0 'SUCCESS: 2 rules found' --lint=none --lint-fatal
echo '  owner: me' >>"$rules"
check_rules 1 'standard input:6:' --lint=none
check_rules 0 'SUCCESS: 2 rules found' --lint=none --ignore-unknown-fields
printf '%s\n' 'groups:' '- name: a' '  rules:' '  - {alert: x, expr: "1 +", annotations: {a: "{{ nope }}"}}' >"$rules"
check_rules 1 'function "nope" not defined'
"$tool" check rules "$rules" "$rules.none" >/dev/null 2>&1
[ $? -eq 1 ] || { echo "FAIL: check rules of a file that is not there"; exit 1; }
rm -f "$rules"
corpus=${PYRRHA_CORPUS:-$top_srcdir/../shared/corpus}
if [ ! -r "$corpus/fib.pb.gz" ]; then
	echo "skipped: no profiles in $corpus (set PYRRHA_CORPUS)"
	exit 77
fi
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
fail() {
	echo "FAIL: $1"
	exit 1
}
"$tool" top --n=1 "$corpus/fib.pb.gz" | grep -q '28.61s  96.20%  96.20% *28.61s  96.20%  math/big.addVV' || fail "top of fib"
"$tool" top --type=samples --n=1 --output=json "$corpus/fib.pb.gz" | grep -q '"name":"math/big.addVV","self":2861,' || fail "samples"
"$tool" merge "$corpus/fib.pb.gz" "$corpus/fib.pb.gz" -o "$out/twice.pb.gz" || fail "merge"
"$tool" top --n=1 "$out/twice.pb.gz" | grep -q '57.22s  96.20%' || fail "top of the merge"
"$tool" diff --n=1 "$corpus/fib.pb.gz" "$out/twice.pb.gz" | grep -q '28.61s  96.20%' || fail "diff"
# One sample of 5 ns, and no other type: the type that is named is in both.
printf '\012\004\010\001\020\002\022\003\022\001\0052\0002\003cpu2\013nanoseconds' >"$out/one.pb"
"$tool" diff "$corpus/fib.pb.gz" "$out/one.pb" >/dev/null 2>&1 && fail "diff of different types"
"$tool" diff --type=cpu --output=json "$corpus/fib.pb.gz" "$out/one.pb" | grep -q '^{"sampleType":"cpu","unit":"nanoseconds","total":-[1-9]' ||
	fail "diff of the type that both have"
"$tool" diff --type=cpu --output=json "$out/one.pb" "$corpus/fib.pb.gz" | grep -q '^{"sampleType":"cpu","unit":"nanoseconds","total":[1-9]' ||
	fail "diff of the type that both have, the other way round"
"$tool" merge "$corpus/fib.pb.gz" "$corpus/alloc_objects.pb.gz" -o "$out/no.pb.gz" 2>"$out/err" && fail "merge of different types"
grep -q 'alloc_objects.pb.gz' "$out/err" || fail "the error names the file"
[ ! -e "$out/no.pb.gz" ] || fail "a failed merge leaves nothing"
"$tool" nonsense 2>/dev/null
[ $? -eq 2 ] || fail "unknown command"
exit 0
