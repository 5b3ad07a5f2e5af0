#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pages of docs/reference are those that the tables in the code make, the prose of docs names nothing that the code does not have, and the
# built programs say the same as the pages.
top=${top_srcdir:-.}
command -v python3 >/dev/null || exit 77
"$top/tests/reference/make" --check && "$top/tests/reference/built" "${top_builddir:-build-check}"
