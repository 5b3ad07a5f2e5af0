# Rules of .eh_frame, and where a process's code lies.
include lib/unwind/files.mk
noinst_LIBRARIES += libunwind.a
UNWIND_LIBS = libunwind.a $(ELF_FILE_LIBS)
