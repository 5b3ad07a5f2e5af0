# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfleet_a_SOURCES = \
  lib/fleet/answerer.h \
  lib/fleet/call.c \
  lib/fleet/call.h \
  lib/fleet/peer.h \
  lib/fleet/server.h \
  lib/fleet/union.h \
  lib/fleet/wire.h \
  $(NULL)
