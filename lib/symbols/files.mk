# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libsymbols_a_SOURCES = \
  lib/symbols/child.c \
  lib/symbols/child.h \
  lib/symbols/debug_file.c \
  lib/symbols/debug_file.h \
  lib/symbols/demangle.c \
  lib/symbols/demangle.h \
  lib/symbols/dwarf_index.c \
  lib/symbols/dwarf_index.h \
  lib/symbols/dwarf_private.h \
  lib/symbols/dwarf_write.c \
  lib/symbols/mounts.c \
  lib/symbols/mounts.h \
  lib/symbols/plt.c \
  lib/symbols/plt.h \
  lib/symbols/spill.c \
  lib/symbols/spill.h \
  lib/symbols/symtab.c \
  lib/symbols/symtab.h \
  lib/symbols/symtab_writer.c \
  lib/symbols/symtab_writer.h \
  lib/symbols/tempfile.c \
  lib/symbols/tempfile.h \
  $(NULL)
SYMBOLS_TESTS = \
  spill_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(SYMBOLS_TESTS)
TESTS += $(SYMBOLS_TESTS)
spill_test_SOURCES = lib/symbols/spill_test.c
spill_test_LDADD = $(SYMBOLS_TEST_LIBS)
endif
