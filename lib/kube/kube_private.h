/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. */
#ifndef PYRRHA_KUBE_KUBE_PRIVATE_H
#define PYRRHA_KUBE_KUBE_PRIVATE_H

#include "fetch/fetch.h"
#include "kube/kube.h"

struct kube_client {
	struct arena arena;          /* owner of the memory of `http`, for clients made from files */
	struct http_config http;
	struct fetch_client *fetch;
	char *server;
};

/* NULL for NULL and "". */
const char *kube_text_copy(struct arena *a, const char *s);

#endif
