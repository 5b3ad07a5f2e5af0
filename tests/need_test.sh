#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of deploy/need.sh. What it says before and while packages are installed, with an apt-get that installs nothing. Paths that make cannot take
# are refused. A build directory that was moved or copied builds again.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES # of the make that runs this
need=$(cd "${top_srcdir:-.}" && pwd)/deploy/need.sh
dir=$(cd "$(mktemp -d)" && pwd -P) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
complain() { echo "$*"; bad=1; }
is() { [ "$1" = "$2" ] || complain "wanted: $2"$'\n'"got:    $1"; }
has() { grep -qE -- "$2" <<<"$1" || complain "it does not say \"$2\":"$'\n'"$1"; }

# ---- packages ----

mkdir -p "$dir/bin" "$dir/deploy" "$dir/build"
cat >"$dir/deploy/packages.txt" <<'END'
# for | package | sign | why
build | frobnicator | file /no/such/file | frobnicates
build | bash        | cmd bash           | is here
demo  | other       | file /no/such/file | nobody asked for it
END
cat >"$dir/bin/apt-get" <<'END'
#!/bin/sh
here=$(dirname "$0")
case "$*" in
update*) ;;
*--assume-no*) cat "$here/summary"; echo Abort.; exit 1 ;;
*frobnicator*)
	for what in 'Get:%d http://deb.example p%d' 'Unpacking p%d ...' 'Setting up p%d ...'; do
		for i in 1 2 3 4 5 6 7 8 9 10; do printf "$what\n" $i; echo "(Reading database ...)"; done
	done
	exit "$(cat "$here/status")" ;;
esac
END
printf '#!/bin/sh\nexec "$@"\n' >"$dir/bin/sudo"
chmod 755 "$dir/bin/apt-get" "$dir/bin/sudo"
install_them() { (PATH=$dir/bin:$PATH top=$dir work=$dir/build; . "$need"; need_packages build) 2>&1; }

echo 0 >"$dir/bin/status"
cat >"$dir/bin/summary" <<'END'
The following NEW packages will be installed:
  frobnicator
0 upgraded, 10 newly installed, 0 to remove and 5 not upgraded.
Need to get 186,600 kB/187 MB of archives.
After this operation, 812 MB of additional disk space will be used.
END
said=$(install_them) || complain "the installation failed"
has "$said" '^  frobnicator +frobnicates$'
has "$said" ': 10 packages, 187 MB to download, 812 MB on disk; about 2 minutes at 5 MB/s\.$'
has "$said" '^ 50 %  Unpacking '
has "$said" '^100 %  Setting up '
is "$(grep -c ' %  ' <<<"$said")" 11
! grep -qE 'other|is here|Reading' <<<"$said" || complain "it says too much:"$'\n'"$said"
is "$(grep -c Reading "$dir/build/apt.log")" 30

# The summary of apt 3, with all archives downloaded before.
cat >"$dir/bin/summary" <<'END'
Summary:
  Upgrading: 0, Installing: 10, Removing: 0, Not Upgrading: 3
  Download size: 0 B / 2,512 kB
  Space needed: 1.5 GB / 100 GB available
END
has "$(install_them)" ': 10 packages, 0 MB to download, 1500 MB on disk; about 2 minutes at 5 MB/s\.$'
# apt gives no summary: the packages are installed all the same. The installation fails: the output of apt-get is shown.
: >"$dir/bin/summary"
echo 100 >"$dir/bin/status"
said=$(install_them) && complain "a failed installation"
has "$said" '^    1  Get:'
has "$said" 'apt-get failed; all it said is in '

filtered() { (. "$need"; printf '%s\n' '  CC  a' 'a warning' '  CC  b' '  CC  c' | progress "$@"); }
is "$(filtered 3 '^  CC' | tr '\n' '|')" ' 33 %    CC  a|a warning| 66 %    CC  b|100 %    CC  c|'
is "$(filtered 30 '^  CC' only | tr '\n' '|')" '  3 %    CC  a| 10 %    CC  c|'

# ---- paths that make cannot take ----

refused() { # TOP WORK TEXT
	said=$( (top=$1 work=$2; . "$need"; echo went on) 2>&1)
	is $? 2
	has "$said" "$3"
}
refused "$dir/my folder" "$dir/my folder/build" "^Nothing can be built in \"$dir/my folder\".* blanks"
has "$said" "^Move this tree, for example: mv \"$dir/my folder\" ~/pyrrha$"
refused "$dir/a" "$dir/b c" "^Name another build directory, .*--build "
for c in \' '"' '&' '#' '$' '`' '\'; do refused "$dir/a${c}b" "$dir/build" '^Move this tree'; done
is "$(top=$dir/a-b+c,d work=$dir/é:~; . "$need"; echo went on)" 'went on'
# The program itself, at its start.
mkdir -p "$dir/my folder/deploy"
cp "${need%/*/*}/quickstart" "${need%/*/*}/check" "$dir/my folder/"
cp "$need" "$dir/my folder/deploy/"
for program in quickstart check; do
	said=$("$dir/my folder/$program" 2>&1)
	is $? 2
	has "$(head -1 <<<"$said")" '^Nothing can be built in "'
	is "$(wc -l <<<"$said")" 2
	[ ! -e "$dir/my folder/build" ] || complain "$program made something"
done

# ---- a build directory that was moved ----

mkdir -p "$dir/one/lib" "$dir/one/build"
cat >"$dir/one/configure.ac" <<'END'
AC_INIT([answer], [1])
AC_CONFIG_AUX_DIR([build-aux])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AM_SILENT_RULES([yes])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
cat >"$dir/one/Makefile.am" <<'END'
bin_PROGRAMS = answer
answer_SOURCES = lib/answer.c lib/answer.h
AM_CPPFLAGS = -DBUILT_IN=\"$(abs_top_builddir)\"
END
echo '#define ANSWER "one"' >"$dir/one/lib/answer.h"
printf '%s\n' '#include <stdio.h>' '#include "answer.h"' 'int main(void) { return puts(BUILT_IN " " ANSWER) < 0; }' >"$dir/one/lib/answer.c"

# make_it DIR: as ./quickstart does
make_it() {
	(top=$dir/$1 work=$dir/$1/build; . "$need"; autotools "$work" && make -C "$work" -s) >"$dir/log" 2>&1 ||
		complain "$1 does not build:"$'\n'"$(tail -5 "$dir/log")"
}
answer() { "$dir/$1/build/answer"; }

# By hand, with an argument.
(cd "$dir/one" && autoreconf -fi && cd build && "$dir/one/configure" -q CFLAGS=-O1 && make -s) >"$dir/log" 2>&1 || complain "$(cat "$dir/log")"
touch "$dir/mark"
make_it one
is "$(answer one)" "$dir/one/build one"
ln -s one "$dir/link"
make_it link
[ ! "$dir/one/build/Makefile" -nt "$dir/mark" ] || complain "it was configured again, but not moved"

rm "$dir/link" && mv "$dir/one" "$dir/two"
make_it two
is "$(answer two)" "$dir/two/build one"
has "$(cat "$dir/two/build/Makefile")" '^CFLAGS = -O1$'
echo '#define ANSWER "two"' >"$dir/two/lib/answer.h"
make_it two
is "$(answer two)" "$dir/two/build two"

# A copy, beside the original: its sources are its own.
cp -a "$dir/two" "$dir/three"
echo '#define ANSWER "three"' >"$dir/three/lib/answer.h"
make_it three
is "$(answer three)" "$dir/three/build three"
is "$(answer two)" "$dir/two/build two"
[ ! -e "$dir/three/build/.moved" ] || complain "three is not done"

# One that was interrupted after it was configured begins anew.
touch "$dir/three/build/.moved" "$dir/mark"
make_it three
[ "$dir/three/build/answer" -nt "$dir/mark" ] && [ ! -e "$dir/three/build/.moved" ] || complain "an interrupted one was not built again"
[ $bad = 0 ]
