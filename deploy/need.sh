# SPDX-License-Identifier: Apache-2.0
# Sourced by ./quickstart and ./check: finds which of deploy/packages.txt are missing, says why each is needed, how much is
# downloaded and how long it takes, then installs them with apt-get. Packages that are already installed, from any source, are left
# alone. Also configures build directories, again if they were moved.
# The caller sets $top (the source tree) and $work (where logs may go, and what is built). It ends where their paths are none for make.
# shellcheck shell=bash disable=SC2154

# path_is_plain DIR: configure refuses other source trees, and make cannot write the rules of other build directories.
path_is_plain() {
	case $1 in *[[:space:]\\\"\'\`\#\$\&]*) return 1 ;; esac
}
for path in "${top-}" "${work-}"; do
	path_is_plain "$path" && continue
	printf '%s\n' "Nothing can be built in \"$path\": configure and make take no path with blanks, quotes or any of \\ # \$ &." >&2
	if path_is_plain "${top-}"; then
		echo "Name another build directory, for example --build /tmp/pyrrha-build." >&2
	else
		printf '%s\n' "Move this tree, for example: mv \"$top\" ~/pyrrha" >&2
	fi
	exit 2
done

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

# progress TOTAL PATTERN [only]: a filter. Counts the lines that match PATTERN and shows them as "  40 %  LINE", of TOTAL lines (0: unknown): on a
# terminal each, in the same place, elsewhere one for each tenth. Other lines pass, unless `only` is given.
progress() {
	local line n=0 percent next=0 part tty=''
	! [ -t 1 ] || tty=yes
	while IFS= read -r line; do
		if ! [[ $line =~ $2 ]]; then
			[ -n "${3-}" ] || printf '%s%s\n' "${tty:+$'\r\033[K'}" "$line"
			continue
		fi
		n=$((n + 1)) percent=$((n * 100 / ($1 > n ? $1 : n)))
		part="$percent %"
		[ "$1" -gt 0 ] || part=$n
		if [ -n "$tty" ]; then
			printf '\r\033[K%5s  %.70s' "$part" "$line"
		elif [ "$percent" -ge "$next" ]; then
			printf '%5s  %s\n' "$part" "$line"
			[ "$1" = 0 ] || next=$((percent - percent % 10 + 10))
		fi
	done
	[ -z "$tty" ] || [ $n = 0 ] || echo
}

# announce PACKAGE...: how many packages apt-get will install, how much it downloads and unpacks, and how long that takes on an ordinary machine.
# Sets $steps, the number of lines of its output that begin with Get:, Unpacking or Setting up.
announce() {
	local said packages get room
	steps=0
	said=$(as_root env LC_ALL=C apt-get install --no-install-recommends --assume-no "$@" 2>/dev/null)
	# In megabytes. The second form of each line is that of apt 3.
	read -r packages get room < <(awk '
		function mb(n, unit) { gsub(",", "", n); return n * (unit ~ /^GB/ ? 1000 : unit ~ /^MB/ ? 1 : unit ~ /^kB/ ? 0.001 : 0) }
		/ newly installed/ { for (i = 2; i <= NF; i++) if ($i == "newly") packages = $(i - 1) }
		/Installing: [0-9]/ { for (i = 1; i < NF; i++) if ($i == "Installing:") packages = $(i + 1) + 0 }
		/^Need to get/ { get = mb($4, $5) } /^ *Download size:/ { get = mb($3, $4) }
		/^After this operation.*additional/ { room = mb($4, $5) } /^ *Space needed:/ { room = mb($3, $4) }
		END { printf "%d %.0f %.0f\n", packages, get, room }' <<<"$said")
	[ "$packages" -gt 0 ] || return 0
	steps=$((packages * (get > 0 ? 3 : 2)))
	echo "With all that they need: $packages packages, $get MB to download, $room MB on disk; about $(minutes $((get / 5 + room / 15))) at 5 MB/s."
}

# minutes SECONDS: in words, rounded up
minutes() {
	local n=$((($1 + 59) / 60))
	if [ $n -le 1 ]; then echo "a minute"; else echo "$n minutes"; fi
}

# need_packages FOR...: installs what is missing of these groups
need_packages() {
	local group package sign why missing=() seen=' ' install steps
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
	as_root apt-get update -qq || { printf '%s\n' "apt-get update failed, see above; what is needed:" "  $install" >&2; return 1; }
	announce "${missing[@]}"
	echo "Installing them now with: apt-get install --no-install-recommends"
	as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" 2>&1 |
		tee "$work/apt.log" | progress "$steps" '^(Get:|Unpacking |Setting up )' only
	[ "${PIPESTATUS[0]}" = 0 ] || {
		tail -20 "$work/apt.log" >&2
		echo "apt-get failed; all it said is in $work/apt.log" >&2
		return 1
	}
}

# is_moved DIR: whether that build directory was configured elsewhere. Its makefile and its lists of dependencies have absolute paths: once the
# source tree or the directory was moved or copied, make finds no rule for the old ones, or builds the old tree.
is_moved() {
	local variable path
	[ ! -e "$1/.moved" ] || return 0
	while read -r variable path; do
		case $variable in
		abs_top_srcdir) [ "$path" -ef "$top" ] || return 0 ;;
		abs_top_builddir) [ "$path" -ef "$1" ] || return 0 ;;
		esac
	done < <(sed -nE 's/^(abs_top_srcdir|abs_top_builddir) = /\1 /p' "$1/Makefile" 2>/dev/null)
	return 1
}

# autotools DIR ARGUMENT...: a configured build directory, made or renewed only if it has to be. One that was moved is configured again, with
# its old arguments unless there are others, and cleaned; .moved stays in it until that is done.
autotools() {
	local dir=$1 f stale='' wanted
	shift
	wanted=$*
	for f in configure.ac Makefile.am; do [ "$top/configure" -nt "$top/$f" ] || stale=yes; done
	[ -f "$top/Makefile.in" ] || stale=yes
	if [ -n "$stale" ]; then (cd "$top" && autoreconf -fi >"$work/autoreconf.log" 2>&1) || { cat "$work/autoreconf.log" >&2; return 1; }; fi
	mkdir -p "$dir"
	if is_moved "$dir"; then
		echo "$dir was configured for another place: all of it is built again."
		[ $# != 0 ] || eval "set -- $("$dir/config.status" --config 2>/dev/null)"
		touch "$dir/.moved"
		find "$dir" -path '*/.deps/*' -type f -delete
		rm -f "$dir/.configured"
	fi
	if [ "$(cat "$dir/.configured" 2>/dev/null)" != "$wanted" ] || [ ! -f "$dir/Makefile" ] || [ -e "$dir/.moved" ]; then
		(cd "$dir" && "$top/configure" -q "$@") || return 1
		[ ! -e "$dir/.moved" ] || { make -C "$dir" -s clean && rm "$dir/.moved"; } || return 1
		printf '%s\n' "$wanted" >"$dir/.configured"
	fi
}
