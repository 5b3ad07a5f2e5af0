/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of a service as Consul's health API lists them, into targets. The address is the service's, or else that
 * of its node. */
#include "discovery/sd_consul.h"

#define LABEL(name) "__meta_consul_" name

static void set_map(struct target_list *t, struct answer_reader *r, const char *prefix, json_t *map)
{
	const char *key;
	json_t *value;
	json_object_foreach(map, key, value)
		target_set_keyed(t, prefix, key, answer_as_view(r, value, key));
}

/* The worst of all checks; a maintenance is worse than any. A status that Consul does not have: "". */
static const char *read_health(struct answer_reader *r, const json_t *instance)
{
	static const char *const worse[] = { "passing", "warning", "critical", "maintenance" };
	json_t *checks = answer_list(r, instance, "Checks"), *c;
	size_t i, worst = 0;
	json_array_foreach(checks, i, c) {
		c = answer_as_object(r, c, "Checks");
		struct view id = view_of(answer_text(r, c, "CheckID"));
		const char *status = answer_text(r, c, "Status");
		size_t is = 0;
		if (view_eqs(id, "_node_maintenance") || view_starts(id, VIEW("_service_maintenance:")))
			status = "maintenance";
		while (is < ARRAY_LEN(worse) && strcmp(status, worse[is]) != 0)
			is++;
		if (is == ARRAY_LEN(worse))
			return "";
		worst = MAX(worst, is);
	}
	return worse[worst];
}

/* ",a,b,": a rule need not know where in the list a tag stands. */
static void set_tags(struct target_list *t, struct answer_reader *r, const json_t *service, const char *separator)
{
	struct buf text = { .max = TARGET_LIST_BYTES };
	json_t *tags = answer_list(r, service, "Tags"), *tag;
	size_t i;
	buf_puts(&text, separator);
	json_array_foreach(tags, i, tag) {
		buf_puts(&text, i ? separator : "");
		buf_putv(&text, answer_as_view(r, tag, "Tags"));
	}
	buf_puts(&text, separator);
	struct view v = text.overflow ? (struct view){ 0 } : arena_view(&t->words, buf_view(&text));
	if (v.ptr)
		target_set(t, VIEW(LABEL("tags")), v);
	else
		t->too_large = true;
	buf_free(&text);
}

static void add_instance(struct target_list *t, struct answer_reader *r, const json_t *instance, const char *separator)
{
	const json_t *node = answer_object(r, instance, "Node"), *service = answer_object(r, instance, "Service");
	const char *node_address = answer_text(r, node, "Address"), *address = answer_text(r, service, "Address");
	int64_t port = answer_count(r, service, "Port", UINT16_MAX);

	target_set_address(t, *address ? address : node_address, port);
	target_set_text(t, LABEL("address"), node_address);
	target_set_text(t, LABEL("node"), answer_text(r, node, "Node"));
	target_set_text(t, LABEL("namespace"), answer_text(r, service, "Namespace"));
	target_set_text(t, LABEL("partition"), answer_text(r, service, "Partition"));
	target_set_text(t, LABEL("service_address"), address);
	target_set_int(t, LABEL("service_port"), port);
	target_set_text(t, LABEL("service_id"), answer_text(r, service, "ID"));
	target_set_text(t, LABEL("health"), read_health(r, instance));
	set_tags(t, r, service, separator);
	set_map(t, r, LABEL("metadata_"), answer_object(r, node, "Meta"));
	set_map(t, r, LABEL("service_metadata_"), answer_object(r, service, "Meta"));
	set_map(t, r, LABEL("tagged_address_"), answer_object(r, node, "TaggedAddresses"));
	target_list_add(t);
}

int consul_targets(struct target_list *t, const char *tag_separator, json_t *instances, struct err *e)
{
	struct answer_reader r = { .e = e, .what = "instance" };
	json_t *instance;
	size_t i;
	json_array_foreach(instances, i, instance) {
		if (!answer_object(&r, instance, "Node") || !answer_object(&r, instance, "Service"))
			r.rc = r.rc ? r.rc : err_set(e, ERR_BAD_DATA, "bad answer: an instance without Node or Service");
		if (r.rc || t->too_large)
			break;
		add_instance(t, &r, instance, tag_separator);
	}
	return r.rc;
}
