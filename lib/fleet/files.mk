# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfleet_a_SOURCES = \
  lib/fleet/answerer.h \
  lib/fleet/call.c \
  lib/fleet/call.h \
  lib/fleet/peer.h \
  lib/fleet/peer_local.c \
  lib/fleet/server.h \
  lib/fleet/union.c \
  lib/fleet/union.h \
  lib/fleet/union_ask.c \
  lib/fleet/union_dictionary.c \
  lib/fleet/union_internal.h \
  lib/fleet/union_join.c \
  lib/fleet/union_labels.c \
  lib/fleet/union_lists.c \
  lib/fleet/union_merge.c \
  lib/fleet/union_parts.c \
  lib/fleet/union_select.c \
  lib/fleet/union_series.c \
  lib/fleet/union_sums.c \
  lib/fleet/wire.h \
  $(NULL)
