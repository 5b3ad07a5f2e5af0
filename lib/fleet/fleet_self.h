/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an address is this server's own: discovery of all servers of a region finds it, too. */
#ifndef PYRRHA_FLEET_SELF_H
#define PYRRHA_FLEET_SELF_H

#include "base/attrs.h"
#include "base/view.h"

/* place: "host:port" of a URL; listens: an address that this server listens on. Hosts are literal addresses, or "localhost": other names are not looked up, and
 * are nobody's. A server that listens on all interfaces has the address of each. */
bool fleet_is_self(struct view place, struct view listens);

#endif
