# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
  bench/bucket \
  bench/http \
  bench/many \
  bench/page \
  bench/page.mjs \
  bench/peers \
  bench/reading \
  bench/rules \
  bench/scrapes \
  bench/year \
  $(NULL)
