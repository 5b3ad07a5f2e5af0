# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
  web/ui/.gitignore \
  web/ui/build.mjs \
  web/ui/bundle.sh \
  web/ui/favicon.svg \
  web/ui/index.html \
  web/ui/package-lock.json \
  web/ui/package.json \
  web/ui/run-tests.sh \
  web/ui/runbooks.mjs \
  web/ui/tsconfig.json \
  $(NULL)
