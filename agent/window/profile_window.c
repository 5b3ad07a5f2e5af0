/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/profile_window.h"

#include <stdlib.h>

void profile_window_free(struct profile_window *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->frames.n; i++) {
		image_unref(w->frames.v[i].image);
		process_info_unref(w->frames.v[i].process);
		runtime_code_unref(w->frames.v[i].code);
	}
	for (size_t i = 0; i < w->processes.n; i++)
		process_info_unref(w->processes.v[i]);
	vec_free(&w->frames);
	vec_free(&w->stacks);
	vec_free(&w->processes);
	vec_free(&w->samples);
	free(w);
}
