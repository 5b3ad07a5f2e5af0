/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that only we have: what the profiles of an alert say, and links to them. */
#include "rules/template_func.h"
#include "rules/template_link.h"

const struct tfunc tfuncs_ours[] = {
	{ 0 },
};
