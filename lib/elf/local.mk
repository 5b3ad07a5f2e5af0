# Reading untrusted ELF files.
include lib/elf/files.mk
noinst_LIBRARIES += libelffile.a
ELF_FILE_LIBS = libelffile.a $(BASE_LIBS)
