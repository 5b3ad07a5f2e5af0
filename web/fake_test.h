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

#endif
