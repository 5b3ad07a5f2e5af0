/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of discovery. */
#ifndef PYRRHA_DISCOVERY_METRICS_H
#define PYRRHA_DISCOVERY_METRICS_H

#include "base/metrics.h"

enum discovery_metric {
	SD_TARGETS,
	SD_FAILED,
	SD_RECEIVED,
	SD_UPDATES,
	SD_DELAYED,
	SD_REFRESHES,
	SD_REFRESH_FAILURES,
	SD_REFRESH_SECONDS,
	SD_FILE_ERRORS,
	SD_FILE_MTIME,
	SD_KUBERNETES_EVENTS,
	SD_KUBERNETES_FAILURES,
	SD_METRICS_
};
extern struct metric discovery_table[SD_METRICS_];

#endif
