/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of the answerer, which its files share. */
#ifndef PYRRHA_FLEET_ANSWERER_METRICS_H
#define PYRRHA_FLEET_ANSWERER_METRICS_H

#include "base/metrics.h"

enum { M_QUESTIONS, M_QUESTION_ERRORS, M_QUESTION_SECONDS, M_VIEWS_OPEN, M_VIEWS_DROPPED, M_DICTIONARIES, M_DICTIONARY_BYTES };
extern struct metric answerer_metrics[];

#endif
