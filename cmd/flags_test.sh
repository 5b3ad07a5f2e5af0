#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command lines of the three programs: Parca's flags, flags and commands with a typing error, the text of --help.
server=$top_builddir/pyrrha agent=$top_builddir/pyrrha-agent tool=$top_builddir/pyrtool
fail() {
	echo "FAIL: $1"
	exit 1
}
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
said=$dir/said
says() { # STATUS TEXT COMMAND...: ends with that status and says that text
	status=$1 text=$2
	shift 2
	"$@" >"$said" 2>&1
	got=$?
	{ [ $got -eq "$status" ] && grep -qF -e "$text" "$said"; } || fail "$*: $got: $(cat "$said")"
}

# The flags of Parca's server, as its --help and its hidden ones are: those that set nothing here are told, without their values.
switches='enable-persistence storage-enable-wal storage-index-on-disk insecure insecure-skip-verify otlp-insecure debuginfo-uploads-signed-url
debug-normalize-addresses iceberg-storage clickhouse-enabled clickhouse-secure storage-debug-value-log storage-tsdb-expensive-metrics'
values='mode http-write-timeout storage-active-memory storage-snapshot-trigger-size storage-granule-size storage-row-group-size
storage-tsdb-retention-time metastore clickhouse-address clickhouse-database clickhouse-username clickhouse-password clickhouse-table store-address
bearer-token bearer-token-file grpc-headers external-label otlp-address otlp-exporter debuginfo-cache-dir debuginfo-upload-max-size
debuginfo-upload-max-duration debuginfod-upstream-servers debuginfod-http-request-timeout debug-infod-upstream-servers
debug-infod-http-request-timeout symbolizer-demangle-mode symbolizer-external-addr-2-line-path symbolizer-number-of-tries mutex-profile-fraction
block-profile-rate profile-share-server'
echo 'scrape_configs: []' >"$dir/parca.yaml"
set -- --config-path="$dir/parca.yaml" --http-address=127.0.0.1:0 --port=127.0.0.1:0 --http-read-timeout=5s --log-level=info --log-format=logfmt \
	--path-prefix=/p --storage-path="$dir/data"
for flag in $switches; do set -- "$@" "--$flag"; done
for flag in $values; do set -- "$@" "--$flag=my-secret"; done
says 0 '0 scrape jobs' "$server" --config.check "$@"
for flag in $switches $values; do
	grep -q "msg=\"this flag of Parca does nothing here\" flag=--$flag instead=\"" "$said" || fail "--$flag is not explained: $(cat "$said")"
done
[ "$(grep -c 'of Parca' "$said")" -eq "$(echo $switches $values | wc -w)" ] || fail "something else is explained: $(cat "$said")"
grep -q my-secret "$said" && fail "a value is in the log"

# Where it listens: --port, if it is not empty, replaces --http-address; without a login only loopback will do, not even the default of Parca.
says 0 '0 scrape jobs' "$server" --config.check --config-path="$dir/parca.yaml" --http-address=no-address --port=127.0.0.1:0
says 0 '0 scrape jobs' "$server" --config.check --config-path="$dir/parca.yaml" --http-address=127.0.0.1:0 --port=
says 2 '"no-address" is not of the form' "$server" --config.check --config-path="$dir/parca.yaml" --http-address=no-address --port=
says 1 'nobody has to log in' "$server" --config-path="$dir/parca.yaml" --storage-path="$dir/data" --http-address=:0

# A comma does not separate the labels of --metadata-external-labels: where one seems to, the agent says so, without the values.
warned='a comma does not separate labels'
"$agent" --check --metadata-external-labels='a=b-secret,c=d-secret;e=f' --metadata-external-labels='list=1,2,3;q=x,=y' \
	--metadata-external-labels='annotation=k1=v1,k2=v2' --metadata-external-labels='k=1=2,z=3;x=y,,behind=z' >"$said" 2>&1
grep -o "$warned.* after_comma=.*" "$said" | sed 's/.* after_comma=\([^ ]*\) .*/\1/' >"$dir/after"
[ "$(cat "$dir/after")" = "c
behind" ] && ! grep -q secret "$said" || fail "a comma: $(cat "$said")"

# What was probably meant.
says 2 'unknown flag --storage.pth; did you mean --storage.path? --help lists the flags' "$server" --storage.pth=x
says 2 'unknown flag --listen-address; did you mean --web.listen-address? ' "$server" --listen-address=:1
says 2 'unknown flag --format; did you mean --log.format? ' "$server" --format=json
says 2 'unknown flag --heap; did you mean --self-profile.heap? ' "$server" --heap
for flag in host root; do says 2 "unknown flag --$flag; --help lists the flags" "$server" --$flag=x; done
says 2 '"check": pyrrha takes only flags, --help lists them; commands are pyrtool' "$server" check config
says 2 'unknown flag --freqency; did you mean --frequency? ' "$agent" --freqency=19
says 2 'unknown flag --labl; did you mean --label? ' "$tool" tsdb import --labl=a=b d f
says 2 'pyrtool: no command tpo; did you mean top? pyrtool help lists them' "$tool" tpo cpu.pb.gz
says 2 'no command tsdb verfy; did you mean tsdb verify? ' "$tool" tsdb verfy dir
says 2 'no command tsbd; did you mean tsdb verify? ' "$tool" tsbd verify dir
says 2 'no command querry; did you mean query? ' "$tool" querry
says 2 'no command import; did you mean tsdb import? ' "$tool" import dir files
says 2 'no command --verison; did you mean --version? ' "$tool" --verison
says 2 'no command --hepl; did you mean --help? ' "$tool" --hepl
says 2 'no command helpp; did you mean help? ' "$tool" helpp
says 2 'no command version; did you mean --version? ' "$tool" version
says 2 'no command --tpo; pyrtool help lists them' "$tool" --tpo cpu.pb.gz
says 2 'no command tsdb nonsense; pyrtool help lists them' "$tool" tsdb nonsense
says 2 'no command nonsense; pyrtool help lists them' "$tool" nonsense

# --help has groups, and each flag stands in that of its name.
groups() { # PROGRAM
	"$1" --help >"$said" || fail "$1 --help"
	awk '/^[^ ].*:$/ { group = $0 } /^  --/ { sub(/[.=].*/, "", $1); print group, $1 }' "$said" | sort -u >"$dir/groups"
}
stands_in() { # GROUP: FLAG
	grep -qx -e "$1" "$dir/groups" || fail "no group $1: $(cat "$dir/groups")"
	[ "$(grep -c -e " ${1##* }\$" "$dir/groups")" -eq 1 ] || fail "${1##* } is in several groups: $(cat "$dir/groups")"
}
groups "$server"
for group in 'Configuration: --config' 'Storage: --storage' 'Scraping: --scrape' 'Page and API: --web' 'Queries: --query' 'Rules and alerts: --rules' \
	'The program itself: --log'; do
	stands_in "$group"
done
groups "$agent"
for group in 'Configuration: --config' 'HTTP: --web' 'Profiles: --history' 'What is sampled: --filter-pid' 'Labels: --node' 'Names of functions: --cache-dir' \
	'The program itself: --log'; do
	stands_in "$group"
done
