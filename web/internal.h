/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of web/. */
#ifndef PYRRHA_WEB_INTERNAL_H
#define PYRRHA_WEB_INTERNAL_H

#include "base/lock.h"
#include "base/vec.h"
#include "httpd/httpd.h"
#include "web/web.h"

struct page_file {
	const char *name;
	char *page;         /* HTML with its <base>; NULL: the file is none, and is served from the binary */
	struct httpd_asset asset;
};

enum lane { LANE_COMMON, LANE_LOOKUP, LANE_CHANGE, LANE_QUERY, LANE_SMALL_QUERY, LANE_FILES, LANE_SELF, LANE_SOURCE, LANES };

struct web {
	struct web_options o;
	struct httpd_lane lanes[LANES];
	struct httpd *httpd;
	struct sink *sink;  /* NULL until storage is open */
	struct fleet_answerer *answerer; /* the same */
	struct budget writes; /* what /api/v1/write decodes */
	struct storage_admin *admin; /* the same */
	struct status_rules *rules; /* the same */
	struct rules_past *past; /* the same */
	struct status_alertmanagers *alertmanagers; /* the same */
	struct status_servers *servers; /* the same */
	struct source *own; /* the same; NULL: o.source */
	struct pins *pins; /* the same; NULL: nothing may be pinned */
	atomic_bool ready, stopping; /* stopping: was ready, will not be again */
	struct mutex opening_lock; /* of opening; a leaf */
	char opening[160];  /* what the start waits for; "" = the disk */
	char *prefix;       /* of routes: "" or "/pyrrha" */
	char *base;         /* path the browser sees, ends in "/" */
	char *url;
	bool url_guessed;   /* nobody gave it: web_url_is_guessed */
	int64_t start_ms;
	struct frame_lists *frames; /* flame_columns.h */
	VEC(struct page_file) files;
	char *index;        /* index.html with its <base> */
	struct httpd_asset index_asset;
};

/* lanes.c */
void lanes_init(struct web *w);
unsigned choose_lane(struct httpd_request *rq, unsigned lane, void *arg);
void refuse_request(struct httpd_request *rq, unsigned lane, enum httpd_refusal why, void *arg);

/* pages.c */
void pages_init(struct web *w);
void pages_release(struct web *w);
void serve_index(struct httpd_request *rq, void *arg);
void serve_file(struct httpd_request *rq, void *arg);
void serve_runbooks(struct httpd_request *rq, void *arg);
void serve_no_page(struct httpd_request *rq, void *arg);

/* management.c: health, readiness, metrics, reload, quit */
void serve_healthy(struct httpd_request *rq, void *arg);
void serve_ready(struct httpd_request *rq, void *arg);
void serve_metrics(struct httpd_request *rq, void *arg);
void serve_reload(struct httpd_request *rq, void *arg);
void serve_quit(struct httpd_request *rq, void *arg);
void serve_version(struct httpd_request *rq, void *arg);

/* api_query.c */
void serve_query(struct httpd_request *rq, void *arg);
void serve_query_range(struct httpd_request *rq, void *arg);
void serve_format_query(struct httpd_request *rq, void *arg);
void serve_parse_query(struct httpd_request *rq, void *arg);
void serve_language(struct httpd_request *rq, void *arg);
void serve_functions(struct httpd_request *rq, void *arg);
void serve_no_exemplars(struct httpd_request *rq, void *arg);

/* api_series.c */
void serve_labels(struct httpd_request *rq, void *arg);
void serve_label_values(struct httpd_request *rq, void *arg);
void serve_series(struct httpd_request *rq, void *arg);

/* api_frames.c */
void serve_frame_values(struct httpd_request *rq, void *arg);

/* api_types.c */
void serve_profile_types(struct httpd_request *rq, void *arg);
void serve_metadata(struct httpd_request *rq, void *arg);

/* admin.c */
/* False: it was answered that there is no administration, or no storage. */
bool admin_allowed(struct httpd_request *rq, const struct web *w);
void serve_delete_series(struct httpd_request *rq, void *arg);
void serve_clean_tombstones(struct httpd_request *rq, void *arg);
void serve_snapshot(struct httpd_request *rq, void *arg);
void serve_tsdb_status(struct httpd_request *rq, void *arg);
void serve_tsdb_blocks(struct httpd_request *rq, void *arg);
void serve_bucket_status(struct httpd_request *rq, void *arg);

/* federate.c */
void serve_federate(struct httpd_request *rq, void *arg);

/* api_write.c */
void serve_write(struct httpd_request *rq, void *arg);

/* api_source.c */
void serve_source_ask(struct httpd_request *rq, void *arg);

/* symbolz.c */
void serve_symbolz(struct httpd_request *rq, void *arg);

/* api_targets.c */
void serve_targets(struct httpd_request *rq, void *arg);
void serve_scrape_pools(struct httpd_request *rq, void *arg);
void serve_scrape_pool_config(struct httpd_request *rq, void *arg);
void serve_relabel_steps(struct httpd_request *rq, void *arg);
void serve_discovery(struct httpd_request *rq, void *arg);

/* api_rules.c */
void serve_rules(struct httpd_request *rq, void *arg);
void serve_alerts(struct httpd_request *rq, void *arg);

/* api_pins.c */
void serve_pins(struct httpd_request *rq, void *arg);
void serve_pin(struct httpd_request *rq, void *arg);
void serve_pin_make(struct httpd_request *rq, void *arg);
void serve_pin_remove(struct httpd_request *rq, void *arg);

/* api_links.c */
void serve_source_links(struct httpd_request *rq, void *arg);

/* api_rules_past.c */
void serve_rules_backfill(struct httpd_request *rq, void *arg);
void serve_rules_try(struct httpd_request *rq, void *arg);

/* api_status.c */
void serve_buildinfo(struct httpd_request *rq, void *arg);
void serve_flags(struct httpd_request *rq, void *arg);
void serve_flag_details(struct httpd_request *rq, void *arg);
void serve_config(struct httpd_request *rq, void *arg);
void serve_runtimeinfo(struct httpd_request *rq, void *arg);
void serve_alertmanagers(struct httpd_request *rq, void *arg);
void serve_servers(struct httpd_request *rq, void *arg);
void serve_target_metadata(struct httpd_request *rq, void *arg);
void serve_walreplay(struct httpd_request *rq, void *arg);
void serve_features(struct httpd_request *rq, void *arg);
void serve_notifications(struct httpd_request *rq, void *arg);
void serve_notifications_live(struct httpd_request *rq, void *arg);
void serve_unknown_api(struct httpd_request *rq, void *arg);

#endif
