# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfleet_a_SOURCES = \
  lib/fleet/answerer.h \
  lib/fleet/call.c \
  lib/fleet/call.h \
  lib/fleet/peer.h \
  lib/fleet/server.h \
  lib/fleet/union.h \
  lib/fleet/wire.h \
  lib/fleet/wire_answer.c \
  lib/fleet/wire_lists.c \
  lib/fleet/wire_question.c \
  lib/fleet/wire_result.h \
  lib/fleet/wire_rows.c \
  lib/fleet/wire_series.c \
  lib/fleet/wire_values.c \
  lib/fleet/wire_values.h \
  $(NULL)
