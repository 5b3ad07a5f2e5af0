# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfleet_a_SOURCES = \
  lib/fleet/answerer.h \
  lib/fleet/call.c \
  lib/fleet/call.h \
  lib/fleet/fleet.c \
  lib/fleet/fleet.h \
  lib/fleet/fleet_config.c \
  lib/fleet/fleet_config.h \
  lib/fleet/fleet_internal.h \
  lib/fleet/fleet_members.c \
  lib/fleet/fleet_probe.c \
  lib/fleet/fleet_self.c \
  lib/fleet/fleet_self.h \
  lib/fleet/fleet_unknown.c \
  lib/fleet/peer.h \
  lib/fleet/server.h \
  lib/fleet/union.h \
  lib/fleet/wire.h \
  $(NULL)
