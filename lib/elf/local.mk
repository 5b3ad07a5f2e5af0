# Reading untrusted ELF files.
noinst_LIBRARIES += libelffile.a
libelffile_a_SOURCES = lib/elf/elf_file.c lib/elf/elf_file.h lib/elf/elf_names.c lib/elf/elf_names.h lib/elf/elf_symbol.c lib/elf/elf_symbol.h
ELF_FILE_LIBS = libelffile.a $(BASE_LIBS)
