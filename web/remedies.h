/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies for a failed scrape. */
#ifndef PYRRHA_WEB_REMEDIES_H
#define PYRRHA_WEB_REMEDIES_H

#include "model/status.h"

/* Appends the advice about a target's error, or about a note that it does not serve what is asked for; nothing if there is
 * neither. */
void remedy_put(struct buf *out, const struct status_target *t);

#endif
