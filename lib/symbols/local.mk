# Names, files and lines of the addresses of ELF files.
noinst_LIBRARIES += libsymbols.a
libsymbols_a_SOURCES = \
  lib/symbols/child.c lib/symbols/child.h lib/symbols/debug_file.c lib/symbols/debug_file.h lib/symbols/demangle.c lib/symbols/demangle.h \
  lib/symbols/dwarf_index.c lib/symbols/dwarf_index.h lib/symbols/dwarf_private.h lib/symbols/dwarf_write.c lib/symbols/mounts.c lib/symbols/mounts.h \
  lib/symbols/plt.c lib/symbols/plt.h lib/symbols/spill.c lib/symbols/spill.h lib/symbols/symtab.c lib/symbols/symtab.h \
  lib/symbols/symtab_writer.c lib/symbols/symtab_writer.h lib/symbols/tempfile.c lib/symbols/tempfile.h
# The C++ runtime has __cxa_demangle.
SYMBOLS_LIBS = libsymbols.a $(ELF_FILE_LIBS) $(ELF_LIBS) $(LZMA_LIBS) -lstdc++
if HAVE_CMOCKA
check_PROGRAMS += spill_test
TESTS += spill_test
spill_test_SOURCES = lib/symbols/spill_test.c
spill_test_LDADD = $(SYMBOLS_LIBS) $(CMOCKA_LIBS)
endif
