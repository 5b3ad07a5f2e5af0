# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
BPF_HEADERS_ = \
  bpf/abi.h \
  bpf/code.bpf.h \
  bpf/core.h \
  bpf/exec.bpf.h \
  bpf/filter.bpf.h \
  bpf/hotspot.h \
  bpf/knobs.h \
  bpf/offcpu.bpf.h \
  bpf/python.h \
  bpf/scratch.bpf.h \
  bpf/send.bpf.h \
  bpf/tables.bpf.h \
  bpf/unwind.h \
  bpf/unwind_x86_64.h \
  bpf/v8.h \
  bpf/walk.bpf.h \
  bpf/walk.h \
  $(NULL)
EXTRA_DIST += \
  $(BPF_HEADERS_) \
  $(NULL)
