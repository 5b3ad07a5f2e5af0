/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/answerer_metrics.h"

#include "fleet/answerer.h"

struct metric answerer_metrics[] = {
	[M_QUESTIONS] = { "pyrrha_source_questions_total", "Questions of other servers about the data of this one, by operation.", METRIC_COUNTER, "op" },
	[M_QUESTION_ERRORS] = { "pyrrha_source_question_errors_total", "Questions of other servers that were answered with an error, by its type.", METRIC_COUNTER,
				"type" },
	[M_QUESTION_SECONDS] = { "pyrrha_source_question_duration_seconds", "How long questions of other servers took, from their arrival, by operation.",
				 METRIC_HISTOGRAM, "op" },
	[M_VIEWS_OPEN] = { "pyrrha_source_views", "States of the storage that are kept for questions of other servers.", METRIC_GAUGE },
	[M_VIEWS_DROPPED] = { "pyrrha_source_views_dropped_total", "States that are not kept any longer: closed by the server that asked, idle, age, or no room.",
			      METRIC_COUNTER, "why" },
	[M_DICTIONARIES] = { "pyrrha_source_dictionaries", "Dictionaries that are kept for servers that ask this one.", METRIC_GAUGE },
	[M_DICTIONARY_BYTES] = { "pyrrha_source_dictionary_bytes", "Memory of these dictionaries.", METRIC_GAUGE },
};

void fleet_answerer_register_metrics(void)
{
	metrics_register(answerer_metrics, ARRAY_LEN(answerer_metrics));
}
