#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The unit tests of the page's pure parts, for `make check`: run from the build folder, where bundle.sh left the sources
# and their packages. A build from a release tarball has neither and skips.
set -eu
work=${top_builddir:-.}/web/ui/work
if [ ! -d "$work/node_modules/esbuild" ] || ! command -v "${NODE:-node}" >/dev/null 2>&1; then
	echo "skipped: the page was not bundled in this build folder (no npm, or a release tarball)"
	exit 77
fi
cd "$work"
"${NODE:-node}" build.mjs --test out
exec "${NODE:-node}" --test out/*.mjs
