/* SPDX-License-Identifier: Apache-2.0 */
/* Compares thresholds of rules with a server's current data. A share is an estimate, and a threshold within three standard errors of it
 * fires and resolves by chance. */
#include "cmd/tool_thresholds.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/labels.h"

#define TIMEOUT_MS 130000
#define ERRORS 3.0      /* standard errors */
#define SHOWN_SERIES 5  /* for one threshold */

/* An answer: the series of samples(P), for one P. */
struct counts {
	struct view profiles;
	json_t *answer;
};

struct asking {
	const char *command;
	const struct tool_server *server;
	void (*warn)(void *arg, const char *text);
	void *arg;
	VEC(struct counts) counts;
};

void thresholds_add(struct thresholds *t, const struct promql_threshold *x, const char *where)
{
	struct threshold *n = vec_add(&t->v);
	*n = (struct threshold){ xstrdup(where), xstrndup(x->share.ptr, x->share.len), xstrndup(x->profiles.ptr, x->profiles.len), x->number };
}

void thresholds_free(struct thresholds *t)
{
	for (size_t i = 0; i < t->v.n; i++) {
		free(t->v.v[i].where);
		free(t->v.v[i].share);
		free(t->v.v[i].profiles);
	}
	vec_free(&t->v);
}

/* ---- questions ---- */

/* NULL: it was told what is wrong. */
static json_t *ask(struct asking *a, const char *query)
{
	struct buf form = { 0 }, body = { 0 };
	tool_put_param(&form, "query", query);
	json_t *answer = tool_ask(a->command, a->server, "/api/v1/query", &form, TIMEOUT_MS, &body);
	buf_free(&form);
	buf_free(&body);
	return answer;
}

static const json_t *series_of(const json_t *answer)
{
	return json_object_get(json_object_get(answer, "data"), "result");
}

static const json_t *samples_of(struct asking *a, const struct threshold *t)
{
	for (size_t i = 0; i < a->counts.n; i++)
		if (view_eqs(a->counts.v[i].profiles, t->profiles))
			return a->counts.v[i].answer;
	char *query AUTOFREE = xasprintf("samples(%s)", t->profiles);
	json_t *answer = ask(a, query);
	vec_push(&a->counts, ((struct counts){ view_of(t->profiles), answer }));
	return answer;
}

static double value_of(const json_t *series)
{
	double v;
	const char *text = json_string_value(json_array_get(json_object_get(series, "value"), 1));
	return text && num_parse_double(view_of(text), &v) ? v : NAN;
}

/* ---- what an answer says ---- */

/* Whether the row is of that profile: it has its labels, and those of its function. Returns how many they are, -1: it is not. */
static int labels_in_common(const json_t *profile, const json_t *row)
{
	const char *name;
	json_t *value;
	int n = 0;
	json_object_foreach((json_t *)(uintptr_t)profile, name, value) {
		if (strcmp(name, LABEL_NAME) == 0)
			continue;
		if (!json_equal(value, json_object_get(row, name)))
			return -1;
		n++;
	}
	return n;
}

static double samples_of_row(const json_t *counts, const json_t *row)
{
	double samples = NAN;
	int best = -1;
	size_t i;
	json_t *series;
	json_array_foreach((json_t *)(uintptr_t)counts, i, series) {
		int n = labels_in_common(json_object_get(series, "metric"), json_object_get(row, "metric"));
		if (n > best) {
			best = n;
			samples = value_of(series);
		}
	}
	return samples;
}

/* The larger of that at what is read and at the threshold: of few samples, none in the function reads as a sure 0. */
static double margin(double share, double number, double samples)
{
	return ERRORS * sqrt(fmax(fmax(share * (1 - share), number * (1 - number)), 0) / samples);
}

/* Below it nothing is near the number, in the profile with the fewest samples. 0: there are none at all. */
static double fewest_samples(const json_t *counts)
{
	double fewest = 0;
	size_t i;
	json_t *series;
	json_array_foreach((json_t *)(uintptr_t)counts, i, series) {
		double n = value_of(series);
		if (n > 0 && (fewest == 0 || n < fewest))
			fewest = n;
	}
	return fewest;
}

static void warn_row(struct asking *a, const struct threshold *t, const json_t *row, double share, double samples)
{
	struct buf b = { 0 };
	buf_printf(&b, "%s: ", t->where);
	tool_put_series_name(&b, json_object_get(row, "metric"));
	buf_printf(&b, " has %.4g now, of %.0f samples: %.4g is within three standard errors (%.2g), and chance decides. share_low and share_high allow for it",
		   share, samples, t->number, margin(share, t->number, samples));
	a->warn(a->arg, b.ptr);
	buf_free(&b);
}

static void look_at_rows(struct asking *a, const struct threshold *t, const json_t *counts, const json_t *rows)
{
	size_t i, near = 0;
	json_t *row;
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		double share = value_of(row), samples = samples_of_row(counts, row);
		if (samples > 0 && fabs(share - t->number) <= margin(share, t->number, samples) && near++ < SHOWN_SERIES)
			warn_row(a, t, row, share, samples);
	}
	if (near <= SHOWN_SERIES)
		return;
	char *text AUTOFREE = xasprintf("%s: so do %zu more", t->where, near - SHOWN_SERIES);
	a->warn(a->arg, text);
}

static bool look(struct asking *a, const struct threshold *t)
{
	const json_t *answer = samples_of(a, t), *counts = series_of(answer);
	double fewest = fewest_samples(counts);
	if (!answer)
		return false;
	if (fewest == 0) {
		char *text AUTOFREE = xasprintf("%s: the server has no samples of %s now, so %.4g cannot be checked", t->where, t->profiles, t->number);
		a->warn(a->arg, text);
		return true;
	}
	double least = t->number - margin(t->number, t->number, fewest);
	char *query AUTOFREE = least > 0 ? xasprintf("%s >= %.17g", t->share, least) : xstrdup(t->share);
	json_t *rows = ask(a, query);
	look_at_rows(a, t, counts, series_of(rows));
	json_decref(rows);
	return rows != NULL;
}

bool thresholds_check(const struct thresholds *t, const char *command, const struct tool_server *server, void (*warn)(void *arg, const char *text),
		      void *arg)
{
	struct asking a = { command, server, warn, arg };
	bool ok = true;
	for (size_t i = 0; i < t->v.n && ok; i++)
		ok = look(&a, &t->v.v[i]);
	for (size_t i = 0; i < a.counts.n; i++)
		json_decref(a.counts.v[i].answer);
	vec_free(&a.counts);
	return ok;
}
