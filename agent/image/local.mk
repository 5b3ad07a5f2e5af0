# agent/image: files that processes execute from.
AGENT_IMAGE_SOURCES = \
  agent/image/exe_meta.c \
  agent/image/exe_meta.h \
  agent/image/image.c \
  agent/image/image.h \
  agent/image/image_content.c \
  agent/image/image_content.h \
  agent/image/image_files.c \
  agent/image/image_files.h
