/* SPDX-License-Identifier: Apache-2.0 */
/* What kube_client.c makes and kube_watch.c uses. */
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

#endif
