/* SPDX-License-Identifier: Apache-2.0 */
/* The results of calls as bytes, but for merges (dictionary.h). What is got fits the call: as many elements as it asked for, in its range, in
 * their order. */
#ifndef PYRRHA_FLEET_WIRE_RESULT_H
#define PYRRHA_FLEET_WIRE_RESULT_H

#include "fleet/call.h"
#include "fleet/wire_values.h"

/* Of select, types, label_names and label_values: a table of strings, then what refers to them (wire_series.c). */
void wire_put_series(struct wire_out *o, const struct fleet_result *r);
void wire_get_series(struct wire_in *in, struct fleet_result *r);
/* Of the others: lists by series, numbers by group (wire_lists.c). */
void wire_put_lists(struct wire_out *o, const struct fleet_result *r);
void wire_get_lists(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r);
/* Of rows, and what they are asked with, but for the readout's text (wire_rows.c). */
void wire_put_graph(struct wire_out *o, const struct source_graph *g);
/* All but the text, which is read before. */
void wire_get_graph(struct wire_in *in, struct source_graph *g);
void wire_put_rows(struct wire_out *o, const struct fleet_result *r);
void wire_get_rows(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r);

#endif
