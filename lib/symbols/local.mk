# Names, files and lines of the addresses of ELF files.
include lib/symbols/files.mk
noinst_LIBRARIES += libsymbols.a
# The C++ runtime has __cxa_demangle.
SYMBOLS_LIBS = libsymbols.a $(ELF_FILE_LIBS) $(ELF_LIBS) $(LZMA_LIBS) -lstdc++
SYMBOLS_TEST_LIBS = $(SYMBOLS_LIBS) $(CMOCKA_LIBS)
