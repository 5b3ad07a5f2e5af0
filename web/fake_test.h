/* SPDX-License-Identifier: Apache-2.0 */
/* For web_test.c: an engine, a storage and a scraper's status that answer by rote. Queries are names of answers. */
#ifndef PYRRHA_WEB_FAKE_TEST_H
#define PYRRHA_WEB_FAKE_TEST_H

#include "model/source.h"
#include "model/status.h"

extern struct source fake_source;
extern struct status_targets fake_targets;
/* Set while the query "slow" runs, and when it saw that it was canceled. */
extern atomic_bool fake_slow_runs, fake_slow_canceled;
/* Set: answers get no memory, or are made after their time. */
extern atomic_bool fake_answers_fail, fake_answers_late;
/* Of the newest query. */
extern atomic_llong fake_timeout_ms, fake_lookback_ms;
extern atomic_int fake_partial;
/* Set: a server that the storage asks is away. Answers that must be whole are errors, others have a warning. */
extern atomic_bool fake_server_away;
#define FAKE_AWAY "server https://eu-1:7070: what it has is missing from this answer: connection refused"

#endif
