#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the site of mkdocs.yml strictly and looks at what was built (site.py). What can be seen in the Markdown alone, tests/lint/pages sees, in
# every ./check; this needs Debian's mkdocs and mkdocs-material, and is skipped without.
top=$(cd "${top_srcdir:-.}" && pwd) || exit 99
if ! command -v mkdocs >/dev/null || { [ ! -d /usr/share/mkdocs/themes/material ] && ! python3 -c 'import material' 2>/dev/null; }; then
	echo "SKIP: the site is not built: apt-get install mkdocs mkdocs-material"
	exit 77
fi
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
begin=$(date +%s)
"$top/deploy/build_site.py" "$dir/site" || { echo "FAIL: the site is not built"; exit 1; }
echo "built in $(($(date +%s) - begin)) s"
"$top/tests/site.py" "$dir/site"
