# SPDX-License-Identifier: Apache-2.0
# What the shell of a room knows before the commands of a page (tests/e2e/docs_room.py). /run/told/N.status is "STATUS LINE" when fence N has
# ended, LINE the place of its last command.

# told_status STATUS...: of each command of a pipeline; one that wrote to a `head` that had enough (SIGPIPE) has done its work
told_status() {
	local s
	for s; do case $s in 0|141) ;; *) return "$s" ;; esac; done
}
# told_run N: the commands of a fence, here
told_run() { told_n=$1; . "/run/told/$1.sh" >"/run/told/$1.out" 2>&1 </dev/null; told_end 0; }
# told_apart N: in a shell of its own
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
