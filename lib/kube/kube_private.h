/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder know of each other. */
#ifndef PYRRHA_KUBE_KUBE_PRIVATE_H
#define PYRRHA_KUBE_KUBE_PRIVATE_H

#include "fetch/fetch.h"
#include "kube/kube.h"

struct kube_client {
	struct arena arena;          /* what `http` lies in, for clients made from files */
	struct http_config http;
	struct fetch_client *fetch;
	char *server;
};

/* NULL for NULL and "". */
const char *kube_text_copy(struct arena *a, const char *s);

#endif
