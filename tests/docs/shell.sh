# SPDX-License-Identifier: Apache-2.0
# Functions of the shell of a room, defined before the commands of a page run (tests/e2e/docs_room.py). When the page's N-th fence of commands has ended,
# the file /run/told/N.status has "STATUS LINE": its exit status, and the line of its last command.

# told_status STATUS...: of each command of a pipeline; one that wrote to a `head` that had enough (SIGPIPE) has done its work
told_status() {
	local s
	for s; do case $s in 0|141) ;; *) return "$s" ;; esac; done
}
# told_run N: runs the commands of fence N in this shell
told_run() { told_n=$1; . "/run/told/$1.sh" >"/run/told/$1.out" 2>&1 </dev/null; told_end 0; }
# told_apart N: runs them in a shell of its own
told_apart() { (told_n=$1; trap 'told_end $?' EXIT; set -e; . "/run/told/$1.sh") >"/run/told/$1.out" 2>&1 </dev/null; }
told_end() { echo "$1 $told_at" >"/run/told/$told_n.status"; }
# told_wait N PORT TRIES: returns when somebody listens there, or fence N has ended
told_wait() {
	local i
	for ((i = 0; i < $3; i++)); do
		[ ! -e "/run/told/$1.status" ] || break
		! { : <"/dev/tcp/127.0.0.1/$2"; } 2>/dev/null || { echo "0 port" >"/run/told/$1.port"; return 0; }
		sleep 0.1
	done
	echo "1 port" >"/run/told/$1.port"
}
told_at=start told_n=start
trap 'told_end $?' EXIT
set -eE

# What a setup="..." of a page may call.

# installed: what the page about systemd leaves on a host: programs, units, user, configuration and rules
installed() {
	export MAKEFLAGS=prefix=/usr
	make -s -C "$SOURCE/build" install >/dev/null
	systemd-sysusers
	install -D -m 644 /usr/share/doc/pyrrha/pyrrha.yml /etc/pyrrha/pyrrha.yml
	install -D -m 644 -t /etc/pyrrha/rules "$SOURCE"/deploy/rules/*.yml
}
# built_for_images: deploy/image.sh finds its programs built
built_for_images() { ln -s "$BUILD" "$SOURCE/build-image" && echo --prefix=/usr >"$SOURCE/build-image/.configured"; }
# git_upstream: `git pull` finds a branch, and nothing new there
git_upstream() { git checkout -q -B room && git config branch.room.remote . && git config branch.room.merge refs/heads/room; }
# a_profile FILE: a CPU profile, of a server that is gone afterwards
a_profile() {
	local server
	printf 'scrape_configs: []\n' >/tmp/a_profile.yml
	pyrrha --config.file=/tmp/a_profile.yml --storage.path=/tmp/a_profile --web.listen-address=127.0.0.1:7999 &
	server=$!
	curl -fsS --retry 30 --retry-connrefused --retry-delay 1 -o "$1" 'http://127.0.0.1:7999/debug/pprof/profile?seconds=1'
	kill "$server"
}
# go_benchmark: a Go module with a benchmark Parse in ./parser
go_benchmark() {
	mkdir parser
	printf 'module ci\n\ngo 1.19\n' >go.mod
	cat >parser/parser_test.go <<'END'
package parser

import (
	"strconv"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for i := 0; i < b.N; i++ {
		strconv.ParseFloat("1.5", 64)
	}
}
END
}
# certificate NAME PATH: PATH.crt, which clients of this shell trust, and PATH.key
certificate() {
	mkdir -p "$(dirname "$2")"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -addext "subjectAltName=DNS:$1" -keyout "$2.key" -out "$2.crt"
	echo "127.0.0.1 $1" >>/etc/hosts
	export CURL_CA_BUNDLE=$2.crt
}
