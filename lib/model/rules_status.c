/* SPDX-License-Identifier: Apache-2.0 */
#include "model/rules_status.h"

const char *alert_state_text(enum alert_state s)
{
	static const char *const texts[] = { "unknown", "inactive", "pending", "firing" };
	return texts[s];
}

const char *rule_health_text(enum rule_health h)
{
	static const char *const texts[] = { "unknown", "ok", "err" };
	return texts[h];
}
