/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server for tests of what asks servers: a thread for each connection, which is kept from request to request. Requests have a
 * Content-Length. */
#ifndef PYRRHA_TESTS_FLEET_LISTENKIT_H
#define PYRRHA_TESTS_FLEET_LISTENKIT_H

#include "base/buf.h"

struct listener;

/* On 127.0.0.1, at a port that it chooses. serve is called with a request's head ("POST /path ...", NUL-terminated) and its body, and writes the answer
 * to fd; false: the connection ends. Returns owned. */
struct listener *listener_new(bool (*serve)(void *arg, int fd, const char *request, struct view body), void *arg);
/* Waits until its connections have ended: 10 s at most, then it fails. */
void listener_free(struct listener *l);
int listener_port(const struct listener *l);
/* The test ends: what serve does should end. */
bool listener_ends(const struct listener *l);

void listener_send(int fd, const void *at, size_t n);
/* A whole answer. */
void listener_answer(int fd, const char *status, const char *type, struct view body);

#endif
