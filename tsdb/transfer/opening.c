/* SPDX-License-Identifier: Apache-2.0 */
/* While tsdb_open waits for the bucket, this says what it waits for; /-/ready shows it. */
#include <stdarg.h>
#include <stdio.h>

#include "tsdb/transfer/transfer_private.h"

void transfer_note_opening(struct transfer *t, const char *format, ...)
{
	char what[128];
	va_list args;
	if (!t->is_opening || !t->db->o.opening)
		return;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	t->db->o.opening(t->db->o.opening_arg, what);
}
