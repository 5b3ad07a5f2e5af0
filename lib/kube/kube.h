/* SPDX-License-Identifier: Apache-2.0 */
/* A Kubernetes API server: who we are to it, and lists of objects that are kept up to date by watching.
 *
 *	kube_client (URL, CA, credentials) -> kube_watch_run: list, then watch from there, again and again
 *	    begin, put, put ..., end         the whole list, once; and after each time the server forgot where we were
 *	    put, del, put ...                what changed since
 *
 *	kube_subscribe: the same on a thread of its own, one for all who want the same objects
 *
 * Lists are read as they arrive, one object at a time, whatever their size. An object above 8 MiB, or one that jansson cannot hold, is
 * left out of lists and watches, which is reported as a problem. A dead connection is noticed within 30 s.
 *
 * Works on any resource path ("/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices"). Source of the protocol:
 * Kubernetes API concepts, "Efficient detection of changes". */
#ifndef PYRRHA_KUBE_KUBE_H
#define PYRRHA_KUBE_KUBE_H

#include <jansson.h>
#include <stdatomic.h>

#include "config/config_http.h"

struct kube_client;

/* c is borrowed for the life of the client (NULL = defaults). server: "https://10.0.0.1:6443". Returns owned. */
int kube_client_new(struct kube_client **ret, const char *server, const struct http_config *c, const char *user_agent,
		    struct err *e) MUST_USE;
/* As a pod: KUBERNETES_SERVICE_HOST and _PORT, and the service account's token (read again for each request: it is rotated) and CA in
 * `dir`; NULL = the kubelet's default. */
int kube_client_in_cluster(struct kube_client **ret, const char *dir, const char *user_agent, struct err *e) MUST_USE;
/* From a kubeconfig file: server, CA and a token, a client certificate or a password, as files or inline. `context`
 * NULL = the current one. Programs that get a token (exec, auth-provider) are refused with advice. */
int kube_client_kubeconfig(struct kube_client **ret, const char *path, const char *context, const char *user_agent,
			   struct err *e) MUST_USE;
void kube_client_free(struct kube_client *c);
const char *kube_client_server(const struct kube_client *c);

/* Server and credentials, as in a configuration: `api_server` with `http`, else a kubeconfig, else as a pod. */
struct kube_source {
	const char *api_server;      /* "https://10.0.0.1:6443"; NULL or "" = not said */
	const struct http_config *http; /* with api_server; NULL = defaults */
	const char *kubeconfig_file; /* NULL or "" = none */
	const char *pod_dir;         /* as a pod; NULL = where the kubelet puts token and CA */
	const char *user_agent;      /* not part of what kube_source_same compares */
};
bool kube_source_same(const struct kube_source *a, const struct kube_source *b);
/* All that s points at must outlive the client. Asks nobody. Returns owned. */
int kube_client_of(struct kube_client **ret, const struct kube_source *s, struct err *e) MUST_USE;
/* A copy in an arena without a limit. */
struct kube_source kube_source_copy(struct arena *a, const struct kube_source *s);

struct kube_watch {
	struct kube_client *client;  /* borrowed */
	const char *path;
	const char *field_selector, *label_selector; /* NULL = none */
	const atomic_bool *cancel;   /* ends kube_watch_run within about a second */
	/* Called on the thread of kube_watch_run; objects are borrowed. */
	void (*begin)(void *arg);
	void (*put)(void *arg, const json_t *object);
	void (*del)(void *arg, const json_t *object);
	void (*end)(void *arg);
	/* May be NULL. It goes on after a pause that grows; e NULL: all is well again. An interrupted list has a begin and puts, but
	 * no end; the next list begins again. */
	void (*problem)(void *arg, const struct err *e);
	/* NULL, or called twice a second: whether a new subscriber needs its own list. Then there is one, which begins with
	 * begin_wanted, and events continue. */
	bool (*list_wanted)(void *arg);
	void (*begin_wanted)(void *arg);
	void *arg;
	/* 0 = the default. */
	uint32_t page;               /* objects asked for at once: 250 */
	size_t max_objects;          /* of one list: 250,000; more is a problem */
	uint32_t watch_seconds;      /* after which the server is to end a watch: 240 */
	uint32_t pause_ms;           /* the first pause after a problem: 800; at most 40 times that; 75 times where there is
				      * nothing of that path */
	uint32_t quiet_ms;           /* kube_link.h */
};

/* Lists and watches until canceled. */
void kube_watch_run(const struct kube_watch *w);

/* --- informers: one list and watch for all who want the same objects --- */

/* Called on the informer's thread, one at a time; objects and errors are borrowed. They may take any lock except those held around
 * kube_unsubscribe; they must not subscribe or unsubscribe.
 *
 *	begin, put ..., end     the whole list: what was not put is gone. May come again at any time
 *	put, del, put ...       what changed since; after the first end only
 *	problem                 what is wrong now, once for each failure; NULL: nothing any more. A list that breaks off ends
 *	                        with it and without end: what was there before still counts. The next begin starts again */
struct kube_events {
	void (*begin)(void *arg);
	void (*put)(void *arg, const json_t *object);
	void (*del)(void *arg, const json_t *object); /* the last state of it */
	void (*end)(void *arg);
	void (*problem)(void *arg, const struct err *e);
	void *arg;
};

struct kube_informer_config {
	struct kube_source client;
	const char *path;            /* "/api/v1/namespaces/x/pods" */
	const char *label_selector, *field_selector; /* NULL or "" = none */
};

struct kube_subscription;

/* A later subscriber of the same watch gets a list and then the events of that watch. c is copied. Fails only if the configuration
 * makes no client (an unreadable kubeconfig, no service account). Does not wait for the network or for callbacks. Objects of a list
 * may have neither kind nor apiVersion. */
int kube_subscribe(struct kube_subscription **ret, const struct kube_informer_config *c, const struct kube_events *ev,
		   struct err *e) MUST_USE;
/* No callback runs afterwards. Takes at most a second, and the callback that runs. */
void kube_unsubscribe(struct kube_subscription *s);
/* The same without waiting, for callers with many: kube_unsubscribe has to follow, and then waits only briefly. */
void kube_unsubscribe_soon(struct kube_subscription *s);

/* "" if there is no such member; borrowed from the object. Path members are separated by '.': "metadata.name". */
const char *kube_text(const json_t *object, const char *path);
const json_t *kube_get(const json_t *object, const char *path);

#endif
