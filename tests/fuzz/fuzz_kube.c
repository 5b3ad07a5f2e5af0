/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an answer of an API server, as a list and as a watch: in pieces they mean what they mean as a whole, and a list is
 * taken as jansson takes it. The first byte says how large the pieces are. */
#include <string.h>

#include "kube/kube.h"
#include "kube/kube_scan.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "kube";

struct seen {
	size_t items, events;
	struct buf text;
};

static int item(void *arg, const json_t *object, struct err *e)
{
	struct seen *s = arg;
	REQUIRE(json_is_object(object), "a put of something else");
	s->items++;
	buf_printf(&s->text, "%zu %s;", json_object_size(object), kube_text(object, "metadata.name"));
	return 0;
}

/* The number of items, or -1: not a whole list. */
static long list(const char *p, size_t n, size_t piece, struct seen *seen, size_t *ret_left_out)
{
	struct kube_scan s = { .item = item, .arg = seen };
	struct err e = { 0 };
	int rc = 0;
	for (size_t at = 0; at < n && !rc; at += piece)
		rc = kube_scan_put(&s, p + at, MIN(piece, n - at), &e);
	if (!rc)
		rc = kube_scan_end(&s, &e);
	REQUIRE(rc == -(int)e.code, "%d", rc);
	REQUIRE(rc || s.items == seen->items + s.left_out, "items were lost");
	REQUIRE(strlen(s.version) < sizeof s.version, "a long version");
	*ret_left_out = s.left_out;
	long items = rc ? -1 : (long)s.items;
	kube_scan_release(&s);
	return items;
}

static bool line(void *arg, struct view v)
{
	struct seen *s = arg;
	struct kube_event ev;
	struct err e = { 0 };
	REQUIRE(v.len && !memchr(v.ptr, '\n', v.len), "a line of %zu bytes", v.len);
	if (kube_event_read(&ev, v, &e)) {
		REQUIRE(e.code && e.msg[0], "an error without words");
		return false;
	}
	REQUIRE(ev.type == KUBE_ERROR || json_is_object(ev.object), "an event without an object");
	s->events++;
	buf_printf(&s->text, "%d %s;", (int)ev.type, ev.version);
	kube_event_release(&ev);
	return true;
}

static void watch(const char *p, size_t n, size_t piece, struct seen *seen)
{
	struct kube_lines l = { .line = line, .arg = seen };
	for (size_t at = 0; at < n; at += piece)
		if (!kube_lines_put(&l, p + at, MIN(piece, n - at)))
			break;
	kube_lines_release(&l);
}

/* What jansson takes as a list without loss, the scanner takes, and with as many items. */
static void as_jansson(const char *p, size_t n, long items)
{
	json_t *j = json_loadb(p, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	const json_t *list = json_object_get(j, "items"), *o;
	size_t i, objects = 0;
	json_array_foreach(list, i, o)
		objects += json_is_object(o);
	json_t *meta = json_object_get(j, "metadata");
	bool good = json_is_array(list) && objects == json_array_size(list) && (!meta || json_is_object(meta)) &&
		    strlen(kube_text(meta, "resourceVersion")) < KUBE_VERSION_LEN && strlen(kube_text(meta, "continue")) < 1024;
	if (good && !memmem(p, n, "\\u", 2)) /* keys may be spelt with escapes; those of an API server are not */
		REQUIRE(items == (long)objects, "%ld items, not %zu", items, objects);
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!n || n > 1 << 18)
		return 0;
	const char *p = (const char *)data + 1;
	struct seen whole = { 0 }, pieces = { 0 };
	size_t left_whole, left_pieces, piece = data[0] % 32 + 1u;
	long items = list(p, n - 1, n, &whole, &left_whole);
	REQUIRE(list(p, n - 1, piece, &pieces, &left_pieces) == items && left_whole == left_pieces, "pieces of %zu differ", piece);
	watch(p, n - 1, n, &whole);
	watch(p, n - 1, piece, &pieces);
	REQUIRE(whole.events == pieces.events && view_eq(buf_view(&whole.text), buf_view(&pieces.text)), "pieces of %zu differ", piece);
	as_jansson(p, n - 1, items);
	buf_free(&whole.text);
	buf_free(&pieces.text);
	return 0;
}
