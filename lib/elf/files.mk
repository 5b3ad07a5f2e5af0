# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libelffile_a_SOURCES = \
  lib/elf/elf_file.c \
  lib/elf/elf_file.h \
  lib/elf/elf_names.c \
  lib/elf/elf_names.h \
  lib/elf/elf_symbol.c \
  lib/elf/elf_symbol.h \
  $(NULL)
