# bpf: the programs that run in the kernel. One object, embedded in the agent (agent/kernel/sampler_object.c).
include bpf/files.mk
# files.mk: BPF_HEADERS_ = bpf/*.h
EXTRA_DIST += bpf/sample.bpf.c
CLEANFILES += bpf/sample.bpf.o
# v3: operations and jumps of 32 bits, which kernels have since 5.1
BPF_CFLAGS_ = -O2 -mcpu=v3 -g -target bpf -D__TARGET_ARCH_x86 -I/usr/include/$(MULTIARCH) -Wall -Wextra -Wno-unused-parameter
bpf/sample.bpf.o: bpf/sample.bpf.c $(BPF_HEADERS_)
	$(AM_V_GEN)$(MKDIR_P) bpf && $(BPF_CLANG) $(BPF_CFLAGS_) -c $(srcdir)/bpf/sample.bpf.c -o $@
