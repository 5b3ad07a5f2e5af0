#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes an OCI image of the server, the agent or the demo program, without a daemon or a registry. It contains the program
# and its shared libraries, from this machine's Debian packages, and nothing else. No shell, no package manager. deploy/Containerfile.NAME
# says how an image is started. buildah reads these files; with a registry they also work on their own. They call this
# script, too (--root), so that both ways lead to the same files.
set -eu
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
umask 022
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
build='' output='' root='' docker='' kind=''

usage() {
	cat <<END
usage: deploy/image.sh [--build DIR] [--output DIR] [--docker] server|agent|demo
       deploy/image.sh [--build DIR] --root DIR server|agent|demo
  --build   take the programs of this directory, and write nothing into it; without this they are built in build-image/
  --output  where the image goes (default build-image/): NAME-VERSION.oci.tar, and beside it NAME-VERSION.spdx.json
  --docker  NAME-VERSION.docker.tar as well, for 'docker load' before Docker 25
  --root    only the files of the image, into DIR, which must be empty or missing
It needs buildah (apt-get install buildah), but not for --root. SOURCE_DATE_EPOCH is the time that the image bears; the
last commit's if that is not set.
END
}

die() { echo "image.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
	case $1 in
	--build) build=${2-}; [ -d "$build" ] || die "--build: $build is no directory"; build=$(cd "$build" && pwd); shift ;;
	--output) output=${2-}; [ -n "$output" ] || die "--output: a directory is needed"; shift ;;
	--root) root=${2-}; [ -n "$root" ] || die "--root: a directory is needed"; shift ;;
	--docker) docker=yes ;;
	-h|--help) usage; exit 0 ;;
	server|agent|demo) [ -z "$kind" ] || die "one image at a time"; kind=$1 ;;
	*) usage >&2; exit 2 ;;
	esac
	shift
done

# What is in which image: programs; libraries that a program loads when it needs them; directories of its own (owner, path).
case $kind in
server) name=pyrrha programs='pyrrha pyrtool' loaded='' own='65532 var/lib/pyrrha
65532 etc/pyrrha-web' ;;
agent) name=pyrrha-agent programs=pyrrha-agent loaded=libdebuginfod.so.1 own='0 var/cache/pyrrha-agent' ;;
demo) name=pyrrha-demo programs=echoserver loaded='' own='' ;;
*) usage >&2; exit 2 ;;
esac

[ "$(id -u)" = 0 ] || die "files of an image belong to root and to user 65532: run this as root, or by 'buildah unshare'"
work=$(mktemp -d "${TMPDIR:-/tmp}/pyrrha-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
[ -n "$build" ] || mkdir -p "$top/build-image"
[ -n "$root" ] || files=$work/context/image
[ -z "$root" ] || files=$root
[ ! -e "$files" ] || [ -z "$(ls -A "$files")" ] || die "--root: $files is not empty"
mkdir -p "$files"
version=$(sed -n 's/^AC_INIT(\[pyrrha\], \[\(.*\)\])$/\1/p' "$top/configure.ac")
revision=$(git -C "$top" rev-parse HEAD 2>/dev/null || :)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/configure.ac")}

# make_programs: builds what --build did not bring
make_programs() {
	[ -z "$build" ] || return 0
	build=$top/build-image
	echo "Building in $build ..." >&2
	# need.sh is shared with ./quickstart, which does without -e and -u
	(
		set +eu
		work=$build
		. "$here/need.sh"
		if [ "$kind" = demo ]; then need_packages demo; else need_packages build image; fi || exit 1
		[ "$kind" = demo ] || { autotools "$build" --prefix=/usr && make -C "$build" -s -j"$(nproc)" $programs; }
	) >&2 || die "the programs cannot be built, see above"
}

# program NAME: where it is. The demo program is compiled for the image alone, static: nothing is written into the directory of --build.
program() {
	if [ "$1" != echoserver ]; then echo "$build/$1"; return; fi
	[ -x "$work/echoserver" ] || (cd "$top/tests/fixtures/echoserver" &&
		CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -o "$work/echoserver" .)
	echo "$work/echoserver"
}

# owners: for each file of standard input a line with its Debian package (or '-') and the file. /lib is a link to /usr/lib, and
# packages use either path.
owners() {
	sed 's|^/usr/|/|' >"$work/asked"
	{ cat "$work/asked"; sed 's|^|/usr|' "$work/asked"; } | xargs -r dpkg -S 2>/dev/null >"$work/said" || :
	awk 'NR == FNR { package = $0; sub(/: .*/, "", package); sub(/^.*: /, ""); sub(/^\/usr\//, "/"); of[$0] = package; next }
		{ print ($0 in of ? of[$0] : "-"), $0 }' "$work/said" "$work/asked"
}

# libraries FILE...: what the loader would map for these, the loader itself included
libraries() {
	local said
	said=$(ldd "$@" 2>/dev/null) || return 0 # static
	case $said in *'not found'*) echo "$said" | grep 'not found' >&2; die "a library is missing" ;; esac
	echo "$said" | awk '$2 == "=>" { print $3; next } $1 ~ /^\// && $1 !~ /:$/ { print $1 }' | sort -u
}

put_programs() {
	local p f library
	mkdir -p "$files/usr/bin" "$files/usr/lib"
	for p in $programs; do
		f=$(program "$p")
		[ -x "$f" ] || die "$f is not there"
		install -m 755 "$f" "$files/usr/bin/$p"
		strip --strip-debug "$files/usr/bin/$p" # names of functions stay: their profiles of themselves show them
		libraries "$f" >>"$work/libraries"
	done
	for library in $loaded; do
		f=$(ldconfig -p | awk -v l="$library" '$1 == l { print $NF; exit }')
		[ -n "$f" ] || die "$library is not here: apt-get install $(sed -n 's/^image *| *\(lib[^ ]*\) .*/\1/p' "$here/packages.txt")"
		{ echo "$f"; libraries "$f"; } >>"$work/libraries"
	done
	[ -s "$work/libraries" ] || return 0
	# One place for all libraries, as Debian has it.
	for f in lib lib64; do mkdir -p "$files/usr/$f"; ln -s "usr/$f" "$files/$f"; done
	# A link (libx.so.1) comes with the package of the file that it leads to.
	sort -u "$work/libraries" | while read -r f; do echo "$(dirname "$f")/$(basename "$(readlink -f "$f")")"; done >"$work/targets"
	sort -u "$work/libraries" | paste -d' ' - <(owners <"$work/targets") | while read -r f p _; do
		[ "$p" != - ] || die "$f is of no Debian package: an image is made of packages, so that its SBOM tells what has to be updated"
		echo "$p" >>"$work/packages"
		install -D -m "$(stat -L -c %a "$f")" "$f" "$files/usr/${f#/usr/}"
	done
}

# Files that programs expect of a system: user names, host name lookup, trusted TLS certificates, os-release.
put_system() {
	mkdir -p "$files/etc/ssl/certs" "$files/tmp" "$files/proc" "$files/sys" "$files/dev" "$files/usr/share/doc/$name"
	chmod 1777 "$files/tmp"
	printf '%s\n' 'root:x:0:0:root:/:/usr/sbin/nologin' 'pyrrha:x:65532:65532:Pyrrha:/:/usr/sbin/nologin' >"$files/etc/passwd"
	printf '%s\n' 'root:x:0:' 'pyrrha:x:65532:' >"$files/etc/group"
	echo 'hosts: files dns' >"$files/etc/nsswitch.conf"
	cp "$top/LICENSE" "$files/usr/share/doc/$name/copyright"
	[ "$kind" != agent ] || cp "$top/LICENSES/GPL-2.0.txt" "$files/usr/share/doc/$name/"
	[ -s "$work/packages" ] || return 0
	cp -L /etc/os-release "$files/etc/os-release"
	[ -s /etc/ssl/certs/ca-certificates.crt ] || die "ca-certificates is not installed"
	cp -L /etc/ssl/certs/ca-certificates.crt "$files/etc/ssl/certs/"
	printf '%s\n' base-files ca-certificates >>"$work/packages"
}

# Their licences ask for it. Files that image scanners read (dpkg's status, a file for each package) are
# included, too.
put_licences() {
	local p doc
	[ -s "$work/packages" ] || return 0
	sort -u -o "$work/packages" "$work/packages"
	mkdir -p "$files/var/lib/dpkg/status.d" "$files/usr/share/common-licenses"
	while read -r p; do
		doc=/usr/share/doc/${p%%:*}/copyright
		[ -e "$doc" ] || die "$doc is not there: this system leaves out what the licence of ${p%%:*} wants beside it"
		install -D -m 644 "$doc" "$files$doc"
	done <"$work/packages"
	xargs dpkg-query -s <"$work/packages" |
		awk -v dir="$files/var/lib/dpkg/status.d/" '/^Package: / { f = dir $2 } { print > f }'
	cp -P /usr/share/common-licenses/* "$files/usr/share/common-licenses/"
}

# The page's libraries are in the program: name, version and licence of what package-lock.json does not call dev.
page_libraries() {
	awk -F'"' '/^    "node_modules\// { name = substr($2, 14); v = l = ""; dev = 0 }
		/^      "version":/ { v = $4 } /^      "license":/ { l = $4 } /^      "dev": true/ { dev = 1 }
		/^    }/ { if (name != "" && !dev) print name, v, l; name = "" }' "$top/web/ui/package-lock.json"
}

# Go modules of the demo program: path and version
go_modules() { go version -m "$(program echoserver)" | awk '$1 == "dep" { print $2, $3 }'; }

# row ID NAME VERSION LICENCE PURL [SOURCE]: a package of the SBOM, and that the image's program comes with it
row() {
	local supplier=''
	[ -z "${6-}" ] || supplier="\"supplier\": \"Organization: Debian\", \"sourceInfo\": \"built from: $6\", "
	printf ',\n    {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, %s"licenseConcluded": "NOASSERTION", "licenseDeclared": "%s", "copyrightText": "NOASSERTION", "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "%s"}]}' \
		"$1" "$2" "$3" "$supplier" "$4" "$5" >>"$work/rows"
	printf ',\n    {"spdxElementId": "SPDXRef-image", "relationshipType": "CONTAINS", "relatedSpdxElement": "SPDXRef-%s"}' "$1" >>"$work/contains"
}

# spdx_id TEXT: what SPDX allows in a name
spdx_id() { printf %s "$1" | tr -c 'A-Za-z0-9.' -; }

# sbom: SPDX 2.3 of all that is in the image
sbom() {
	local p v arch source licence release
	release=$(. /etc/os-release && echo "$VERSION_ID")
	: >"$work/rows"; : >"$work/contains"
	[ ! -s "$work/packages" ] || xargs dpkg-query -W -f '${Package}|${Version}|${Architecture}|${source:Package} ${source:Version}\n' \
		<"$work/packages" >"$work/query"
	while IFS='|' read -r p v arch source; do
		row "deb-$(spdx_id "$p")" "$p" "$v" NOASSERTION "pkg:deb/debian/$p@${v//+/%2B}?arch=$arch&distro=debian-$release" "$source"
	done <"$work/query"
	case $kind in
	server) while read -r p v licence; do row "npm-$(spdx_id "$p")" "$p" "$v" "${licence:-NOASSERTION}" "pkg:npm/${p/@/%40}@$v"; done < <(page_libraries) ;;
	demo) while read -r p v; do row "go-$(spdx_id "$p")" "$p" "$v" NOASSERTION "pkg:golang/$p@$v"; done < <(go_modules) ;;
	esac
	cat <<-END
		{
		  "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "$name-$version",
		  "documentNamespace": "urn:pyrrha:$name:$version:$(cat "$work/rows" "$files"/usr/bin/* | sha256sum | cut -c1-32)",
		  "creationInfo": {"created": "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)", "creators": ["Tool: deploy/image.sh"]},
		  "packages": [
		    {"SPDXID": "SPDXRef-image", "name": "$name", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "Copyright the Pyrrha authors", "comment": "revision ${revision:-unknown}"}$(cat "$work/rows")
		  ],
		  "relationships": [
		    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-image"}$(cat "$work/contains")
		  ]
		}
	END
}

put_own() {
	local uid path
	[ -n "$own" ] || return 0
	while read -r uid path; do
		install -d -m 755 "$files/$path"
		[ "$(id -u)" != 0 ] || chown "$uid:$uid" "$files/$path"
	done <<<"$own"
}

buildah_() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

# One layer; buildah finds in the context "build" what the Containerfile copies from its stage of that name, and skips the stage.
make_image() {
	local out=$output/$name-$version reference=localhost/$name:$version
	mkdir -p "$output" "$work/empty"
	buildah_ build --isolation chroot --format oci --timestamp "$epoch" --quiet --build-context "build=$work/context" \
		--build-arg "VERSION=$version" --build-arg "REVISION=$revision" -f "$here/Containerfile.$kind" -t "$reference" "$work/empty" >/dev/null
	rm -f "$out".*
	buildah_ push --quiet "$reference" "oci-archive:$out.oci.tar:$reference"
	[ -z "$docker" ] || buildah_ push --quiet "$reference" "docker-archive:$out.docker.tar:$reference"
	cp "$files/usr/share/doc/$name/sbom.spdx.json" "$out.spdx.json"
	echo "$out.oci.tar  $reference  $(($(stat -c %s "$out.oci.tar") >> 20)) MB, $(du -sm "$files" | cut -f1) MB unpacked"
}

[ -n "$root" ] || command -v buildah >/dev/null || die "buildah is not here: apt-get install buildah"
: >"$work/packages" >"$work/query"
make_programs
output=${output:-$top/build-image}
put_programs
put_system
put_licences
put_own
sbom >"$work/sbom"
install -m 644 "$work/sbom" "$files/usr/share/doc/$name/sbom.spdx.json"
[ -n "$root" ] || make_image
