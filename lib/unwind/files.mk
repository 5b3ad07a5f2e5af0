# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libunwind_a_SOURCES = \
  lib/unwind/call_frame.c \
  lib/unwind/call_frame.h \
  lib/unwind/eh_frame.c \
  lib/unwind/eh_frame.h \
  lib/unwind/own_images.c \
  lib/unwind/own_images.h \
  lib/unwind/own_unwind.c \
  lib/unwind/own_unwind.h \
  lib/unwind/proc_maps.c \
  lib/unwind/proc_maps.h \
  lib/unwind/rule_rows.c \
  lib/unwind/rule_rows.h \
  lib/unwind/x86_insn.c \
  lib/unwind/x86_insn.h \
  $(NULL)
