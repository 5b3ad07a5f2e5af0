/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes_scrape_configs: the API servers whose objects are jobs. */
#ifndef PYRRHA_SCRAPER_OBJECT_SOURCES_H
#define PYRRHA_SCRAPER_OBJECT_SOURCES_H

#include "scraper/config/scrape_config.h"

/* One item of kubernetes_scrape_configs. */
struct object_source {
	struct kube_sd_config *config;
	struct view fingerprint;
};

/* Decodes the top-level list into base. */
int object_sources_decode(struct config_ctx *c, const struct config_tree *t, struct scraper_config *base, struct err *e) MUST_USE;

#endif
