#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes OUT/dist (the page as the server embeds it) from the sources in SRC: bundle.sh SRC OUT.
#
# A release tarball carries the finished bundle in SRC/prebuilt with the checksum of the sources it was made from; as
# long as that still holds it is copied, so building from a tarball needs neither npm nor the network. Otherwise the
# sources are copied to OUT/work and built there with `npm ci`: SRC is never written to. $NPM and $NODE name the tools.
# The page of runbooks is written from docs/runbooks.md, two folders above SRC.
set -eu
src=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
NPM=${NPM:-npm}
NODE=${NODE:-node}
sources="package.json package-lock.json tsconfig.json build.mjs runbooks.mjs index.html favicon.svg ../../docs/runbooks.md"

sources_sum() {
	(cd "$src" && cat $sources $(find src -type f | LC_ALL=C sort) | sha256sum | cut -d' ' -f1)
}

want=$(sources_sum)
if [ -f "$src/prebuilt/SOURCES.sha256" ] && [ "$(cat "$src/prebuilt/SOURCES.sha256")" = "$want" ]; then
	rm -rf "$out/dist"
	mkdir -p "$out/dist"
	for f in index.html app.js app.css favicon.svg runbooks.html runbooks.js runbooks.css; do
		cat "$src/prebuilt/$f" >"$out/dist/$f"
	done
	echo "$want" >"$out/dist.sha256"
	exit 0
fi

if ! command -v "$NPM" >/dev/null 2>&1 || ! command -v "$NODE" >/dev/null 2>&1; then
	echo "web/ui: the page is built with npm, and there is none: apt-get install npm (a release tarball needs no npm)" >&2
	exit 1
fi

# Copy, not link: Node resolves packages from where a file really lies.
mkdir -p "$out/work"
rm -rf "$out/work/src" "$out/work/test"
for f in $sources src test; do
	cp -R "$src/$f" "$out/work/"
done
chmod -R u+w "$out/work"
cd "$out/work"
lock=$(sha256sum <package-lock.json)
if [ "$(cat node_modules/.pyrrha-lock 2>/dev/null || :)" != "$lock" ]; then
	"$NPM" ci --no-audit --no-fund --loglevel=error >npm.log 2>&1 || {
		cat npm.log >&2
		echo "web/ui: npm ci failed (above); it needs the npm registry once, then its cache" >&2
		exit 1
	}
	echo "$lock" >node_modules/.pyrrha-lock
fi
"$NODE" node_modules/typescript/bin/tsc --noEmit
rm -rf "$out/dist.new"
"$NODE" build.mjs "$out/dist.new"
rm -rf "$out/dist"
mv "$out/dist.new" "$out/dist"
echo "$want" >"$out/dist.sha256"
