/* SPDX-License-Identifier: Apache-2.0 */
/* The order of all locks of the program: a thread that holds one takes only those below it in this table. base/lock.h says how that is
 * checked. A new lock has its row here, unless nothing is ever taken under it: then it is a LOCK_LEAF. */
#ifndef PYRRHA_BASE_LOCK_RANKS_H
#define PYRRHA_BASE_LOCK_RANKS_H

enum lock_rank {
	LOCK_ANY, /* held against nothing */

	/* cmd/ */
	RANK_RELOAD,             /* configuration.reload: one reload at a time; held while parts of the program take over what it says */

	/* rules/ */
	RANK_RULES_APPLY,        /* rules.apply: one configuration at a time */
	RANK_RULES,              /* rules.lock: which groups there are, which is due */
	RANK_RULES_GROUP,        /* group.lock: what the status shows of a group */
	RANK_NOTIFIER_APPLY,     /* notifier.apply: which sets there are; held while discovery is started or read */

	/* lib/fleet */
	RANK_FLEET_APPLY,        /* fleet.apply: which other servers the configuration has; held while discovery is started or read */

	/* scraper/ */
	RANK_OBJECT_JOBS_APPLY,  /* object_jobs.apply: one round or configuration at a time */
	RANK_SCRAPER_APPLY,      /* scraper.apply_lock: one configuration at a time; held while discovery is started */

	/* tsdb/, while it waits for its bucket */
	RANK_TSDB_COLUMN_NAMES,  /* column_names.lock: a reader of values loads a day's dictionary */
	RANK_TSDB_CACHED_TIDY,   /* cached_days.tidy_lock: one thread tidies the cache at a time */
	RANK_TSDB_CACHED_DAY,    /* cached_day.lock: a day of the bucket is being opened for queries; held while deletes and its series are read */
	RANK_TSDB_TRANSFER,      /* transfer.run_lock: one round with the bucket at a time */
	RANK_TSDB_OTHERS,        /* others.look_lock: one look at the other servers of the bucket at a time */
	RANK_TSDB_DELETES,       /* transfer.deletes_lock: one delete after the other, here and in the bucket */

	/* lib/base */
	RANK_FLAGS,              /* of flag.c: who waits for what besides a flag; held while they are woken, under the locks that they wait with */

	/* agent/ */
	RANK_AGENT,              /* agent.lock: windows, the stack tree, ids of images */
	RANK_SYMBOLIZER,         /* symbolizer.lock: images and their names */

	/* lib/discovery, lib/kube */
	RANK_DISCOVERY_REGISTRY, /* of sources.c: which sources there are; held while one is started */
	RANK_KUBE_REGISTRY,      /* of kube_informer.c: which informers there are */
	RANK_KUBE_INFORMER,      /* kube_informer.lock: its subscribers; not held while one is called */
	RANK_KUBE_OBJECTS,       /* kube_objects.lock; held while kube_objects_each calls */
	RANK_KUBE_RUN,           /* run.lock of sd_kubernetes_run.c: the store */
	RANK_DISCOVERY_SOURCE,   /* source.lock of sources.c: its groups; held while who uses it is told that they changed */

	/* scraper/ */
	RANK_SCRAPER_SHOWN,      /* of scraper.c: whose queue the metrics show */
	RANK_SCRAPER,            /* scraper.lock: endpoints, what is due, who decodes what; discovery tells of changes under its own */

	/* rules/ */
	RANK_NOTIFIER,           /* notifier.lock: queues of Alertmanagers */

	/* lib/fleet */
	RANK_FLEET_VIEW,         /* fleet_peer_view.lock: the asks of a view of another server; held while one is encoded and posted */

	/* lib/remote */
	RANK_REMOTE_WRITE_APPLY, /* remote_write.apply: one change at a time */

	/* lib/httpd */
	RANK_WEB_CHANGE,         /* httpd_web.change: for reading, while a request is admitted by one configuration */
	RANK_WEB_CONFIG,         /* httpd_web.lock: which configuration that is */
	RANK_LOGIN,              /* login.lock: passwords that are being checked */
	RANK_HTTPD_WORK,         /* httpd_work.lock: requests in flight */

	/* promql-like/ */
	RANK_ENGINE,             /* promql_engine.lock: which queries are at work */
	RANK_MEMORY_GUARD,       /* memory_guard.lock: queries that may be stopped; held while idle memory is given back */
	RANK_QUERY_SHARED,       /* promql_shared.lock: what an evaluation of rules keeps; held while the storage is opened */
	RANK_QUERY_SYMBOLS,      /* eval.symbols_lock: writing into a query's own dictionary */

	/* tsdb/ */
	RANK_TSDB_SEAL,          /* tsdb.seal_lock: one seal or retention at a time */
	RANK_TSDB_APPLY,         /* tsdb.apply_lock: what changes versions: the committer applying, the sealer, retention */
	RANK_TSDB_APPEND_TURN,   /* partition.append_turn: who appends to a day; held while dict_lock is wanted for writing and had */
	RANK_TSDB_DICT_UNION,    /* dict_union.lock: the dictionary of several partitions; held while theirs are read */
	RANK_TSDB_QUERY_DICT,    /* query_dict.lock: a query's own dictionaries; held while they are read */
	RANK_TSDB_DICT,          /* partition.dict_lock: symbols and index; a newer partition's before an older one's */
	RANK_TSDB_VIEW,          /* view.lock: what a query holds */
	RANK_TSDB_STATE,         /* tsdb.state_lock: the pointer to the current version, seq, the list of partitions; for a few instructions */
	RANK_TSDB_WINDOW,        /* window.lock: rows of one window */
	RANK_TSDB_LOG_MARKS,     /* hlog.mark_lock: head.marks and head.end; held while their text is made and written */
	RANK_TSDB_LOG_DB,        /* hlog.db_lock: the head log is open */
	RANK_TSDB_LOG_WRITE,     /* hlog.write_lock: writes to it */
	RANK_TSDB_NOTES,         /* notes.lock: the table of notes */
	RANK_TSDB_CACHED_DAYS,   /* cached_days.lock: which days of the bucket queries read; held while one is looked up */
	RANK_TSDB_CACHED_FILE,   /* cached_file.lock: what an earlier process has left of it is held against a hash */
	RANK_TSDB_CACHED_DIR,    /* cached_dir.lock: the database of a day of the bucket is opened */
	RANK_TSDB_PARTS,         /* partition_db.parts_lock: the list of a partition's parts, what is damaged of them */

	/* lib/remote */
	RANK_REMOTE_WRITE,       /* remote_write.lock: the intake, the change that waits; the storage calls with its apply_lock */

	/* lib/fleet */
	RANK_FLEET_DICTIONARY,   /* union_dictionary.lock, and of both sides' dictionaries: stacks of servers are translated; held while their symbols are read */

	/* lib/model */
	RANK_CALLTREE,           /* calltree.lock: nodes of a dictionary as calls */

	/* promql-like/ */
	RANK_GRAPH_ROWS,         /* graph_rows.lock: rows of a graph, while threads read stacks */

	/* lib/selfprof */
	RANK_SELFPROF_CPU,       /* of cpu.c: the profiles that are being taken */
	RANK_SELFPROF_HEAP,      /* of heap.c: stacks of the heap */
	RANK_OWN_NAMING,         /* own_code.naming: names */
	RANK_OWN_UNWINDING,      /* own_code.unwinding: images and rules */

	/* What has no row of its own: a thread holds one of these at a time, and takes only what follows. */
	LOCK_LEAF,

	RANK_METRICS,            /* of base/metrics.c: whoever counts may hold any other */
	RANK_MALLOC,             /* of selfprof/heap_live.c: whoever allocates may hold any other */
};

#endif
