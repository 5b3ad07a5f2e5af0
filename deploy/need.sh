# SPDX-License-Identifier: Apache-2.0
# Sourced by ./quickstart and ./check: finds which of deploy/packages.txt are missing, says why each is needed, then
# installs them with apt-get. Packages that are already installed, from any source, are left alone.
# The caller sets $top (the source tree) and $work (where logs may go).
# shellcheck shell=bash disable=SC2154

# A Go from go.dev is often not on the path of root.
if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then PATH=$PATH:/usr/local/go/bin; fi

# version_of COMMAND: its first dotted number, as it tells it itself
version_of() {
	case $1 in
	go) go version ;;
	*) "$1" --version ;;
	esac 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)*' | head -1
}

# at_least HAVE WANT: dotted numbers
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]; }

# is_there KIND NAME [VERSION]: what the sign column of packages.txt says
is_there() {
	case $1 in
	cmd) command -v "$2" >/dev/null && { [ -z "${3-}" ] || at_least "$(version_of "$2")" "$3"; } ;;
	lib) command -v pkg-config >/dev/null && pkg-config --exists "$2" ;;
	file) [ -e "$2" ] ;;
	*) echo "deploy/packages.txt: no such sign: $1" >&2; return 1 ;;
	esac
}

# as_root COMMAND...: directly, or with sudo
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# need_packages FOR...: installs what is missing of these groups
need_packages() {
	local group package sign why missing=() seen=' ' install
	while IFS='|' read -r group package sign why; do
		group=${group//[[:space:]]/} package=${package//[[:space:]]/}
		case $group in ''|'#'*) continue ;; esac
		case " $* " in *" $group "*) ;; *) continue ;; esac
		case $seen in *" $package "*) continue ;; esac
		seen+="$package "
		# shellcheck disable=SC2086
		is_there $sign && continue
		[ ${#missing[@]} = 0 ] && echo "These Debian packages are missing:"
		missing+=("$package")
		printf '  %-23s %s\n' "$package" "${why# }"
	done <"$top/deploy/packages.txt"
	[ ${#missing[@]} = 0 ] && return 0
	if ! command -v apt-get >/dev/null; then
		echo "This is no Debian system: install what corresponds to them, then run this again." >&2
		return 1
	fi
	install="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		printf '%s\n' "Neither root nor sudo: as root, run this, then run what you ran again:" "  $install" >&2
		return 1
	fi
	echo "Installing them now with: apt-get install --no-install-recommends"
	as_root apt-get update -qq || { printf '%s\n' "apt-get update failed, see above; what is needed:" "  $install" >&2; return 1; }
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1 || {
		tail -20 "$work/apt.log" >&2
		echo "apt-get failed; all it said is in $work/apt.log" >&2
		return 1
	}
}

# autotools DIR ARGUMENT...: a configured build directory, made or renewed only if it has to be
autotools() {
	local dir=$1 f stale=
	shift
	for f in configure.ac Makefile.am; do [ "$top/configure" -nt "$top/$f" ] || stale=yes; done
	[ -f "$top/Makefile.in" ] || stale=yes
	if [ -n "$stale" ]; then (cd "$top" && autoreconf -fi >"$work/autoreconf.log" 2>&1) || { cat "$work/autoreconf.log" >&2; return 1; }; fi
	mkdir -p "$dir"
	if [ "$(cat "$dir/.configured" 2>/dev/null)" != "$*" ] || [ ! -f "$dir/Makefile" ]; then
		(cd "$dir" && "$top/configure" -q "$@") || return 1
		printf '%s\n' "$*" >"$dir/.configured"
	fi
}
