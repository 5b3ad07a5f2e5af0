/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of one listening address, and the choice of which to close.
 *
 *	accepted ─► REQUEST ─► BODY ─► WORK ─► ANSWER ─► IDLE ─┐
 *	               ▲                                       │
 *	               └────────── the next request ───────────┘
 *
 * Each phase but WORK waits for the client and has a deadline, which no byte of the client moves. If there is no room for a new
 * connection, one is closed, except in WORK, where the client waits for us: of the network that has most connections, within it of the
 * subnet and the address that have most (networks.h), the one that has been idle longest. So a flood takes the places of itself. One
 * client address has at most three quarters of the slots; beyond that its new connection replaces one of its own.
 *
 * The loop thread of libmicrohttpd tells what happens; the watcher (work.c) calls httpd_slots_tick. A connection is closed
 * by shutting its socket, which the loop then sees as gone. The loop forgets a connection before it closes its socket, so
 * that no other file is shut. */
#ifndef PYRRHA_HTTPD_SLOTS_H
#define PYRRHA_HTTPD_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct slots;
struct slot;

enum slot_phase { SLOT_REQUEST, SLOT_BODY, SLOT_WORK, SLOT_ANSWER, SLOT_IDLE };

struct slots_options {
	unsigned max;        /* connections */
	int64_t headers_ms;  /* from accept, or from a request's first line, to the end of its headers */
	int64_t body_ms;     /* from there to the end of its body */
	int64_t answer_ms;   /* for the client to take an answer, besides a second for each 64 KiB */
	int64_t idle_ms;     /* for the next request to begin; libmicrohttpd closes connections that are idle this long */
};

struct slots *slots_new(const struct slots_options *o);
void slots_free(struct slots *s);
/* Makes room for a connection from there, and keeps it until slots_add. False: there is none, because every client waits for us. */
bool slots_admit(struct slots *s, const struct sockaddr *from);
struct slot *slots_add(struct slots *s, int fd, const struct sockaddr *from);
void slots_remove(struct slot *c);

/* Its client's address, IPv4 as IPv6 has it. */
const struct in6_addr *slot_from(const struct slot *c);
/* Whether it was shut to make room, or at a deadline. What its client sent before must not be served: nobody counts that connection any more. */
bool slot_is_shut(struct slot *c);
/* Its request's first line is here. */
void slot_begin(struct slot *c);
void slot_set_phase(struct slot *c, enum slot_phase phase);
/* Its answer is handed over: n bytes, of which `held` are in memory until the client has taken them. */
void slot_answer(struct slot *c, uint64_t n, size_t held);

/* Closes what is beyond its deadline. */
void slots_tick(struct slots *s, int64_t now_ns);
/* Closes the connection that holds an answer in memory and has taken nothing of it for the longest time, at least half a second.
 * Returns the number of bytes that this frees; 0: there is none. */
size_t slots_close_stuck(struct slots *s, int64_t now_ns);

#endif
