/* SPDX-License-Identifier: Apache-2.0 */
/* Links to our page. Its address says what it looks at (web/ui/src/base/state.ts): q or g0.expr; from and to, seconds since 1970;
 * view. The page evaluates the expression at `to`, unless an instant is picked in the graph. */
#ifndef PYRRHA_RULES_TEMPLATE_LINK_H
#define PYRRHA_RULES_TEMPLATE_LINK_H

#include "base/buf.h"

/* "&from=...&to=...": the hour that ends at t_ms. */
void template_put_time(int64_t t_ms, struct buf *out);

#endif
