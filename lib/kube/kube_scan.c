/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner of lists knows the outermost object and the array of items. It delimits each value by its brackets and quotes; jansson
 * checks that it is JSON. A state machine, so that the bytes may come in any pieces.
 *
 * A valid JSON item that cannot be kept (too large, or a number or a key that jansson cannot hold) is left out. Otherwise one bad
 * object would make all others disappear. */
#include "kube/kube_scan.h"

#include <stdio.h>

#include "kube/kube.h"

#define TOKEN_MAX ((size_t)16 << 10) /* it becomes part of a URL */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int malformed(struct err *e, const char *where)
{
	return err_set(e, ERR_BAD_DATA, "no JSON of a list: %s", where);
}

/* --- one value --- */

/* Bytes of a value's text that belong to it, from the first on; *whole: its end was among them. A scalar ends before
 * what follows it. */
static size_t value_len(struct kube_scan *s, const char *p, size_t n, bool *whole)
{
	size_t i = 0;
	*whole = true;
	for (; i < n; i++) {
		char c = p[i];
		if (s->in_string) {
			if (s->escaped)
				s->escaped = false;
			else if (c == '\\')
				s->escaped = true;
			else if (c == '"' && (s->in_string = false, s->depth == 0))
				return i + 1;
		} else if (c == '"') {
			s->in_string = true;
		} else if (c == '{' || c == '[') {
			s->depth++;
		} else if (c == '}' || c == ']') {
			if (s->depth == 0)
				return i; /* behind a scalar */
			if (--s->depth == 0)
				return i + 1;
		} else if (s->depth == 0 && (c == ',' || is_blank(c))) {
			return i;
		}
	}
	*whole = false;
	return i;
}

static void begin_value(struct kube_scan *s, bool keep)
{
	s->depth = 0;
	s->in_string = s->escaped = false;
	s->keep = keep;
	buf_reset(&s->value);
	s->value.max = KUBE_OBJECT_MAX;
}

/* Why an item is left out; NULL: it is no JSON at all. */
static const char *why_left_out(const json_error_t *why)
{
	switch (json_error_code(why)) {
	case json_error_null_byte_in_key: return "a key with a NUL in it";
	case json_error_numeric_overflow: return "a number that is too large";
	case json_error_stack_overflow: return "nested too deeply";
	default: return NULL;
	}
}

static void leave_out(struct kube_scan *s, const char *why)
{
	s->left_out++;
	s->why = why;
}

static int end_item(struct kube_scan *s, struct err *e)
{
	json_error_t why;
	s->items++;
	if (s->value.overflow) {
		leave_out(s, "too large");
		return 0;
	}
	json_t *j = json_loadb(buf_view(&s->value).ptr, s->value.len, JSON_ALLOW_NUL, &why);
	if (!j && why_left_out(&why)) {
		leave_out(s, why_left_out(&why));
		return 0;
	}
	int rc = !j ? err_set(e, ERR_BAD_DATA, "no JSON in item %zu: %s", s->items - 1, why.text) :
		 !json_is_object(j) ? err_set(e, ERR_BAD_DATA, "no JSON object in item %zu", s->items - 1) : s->item(s->arg, j, e);
	json_decref(j);
	return rc;
}

static int end_metadata(struct kube_scan *s, struct err *e)
{
	json_error_t why;
	json_t *j = s->value.overflow ? NULL : json_loadb(buf_view(&s->value).ptr, s->value.len, 0, &why);
	const char *version = kube_text(j, "resourceVersion"), *more = kube_text(j, "continue");
	int rc = json_is_object(j) ? 0 : malformed(e, "its metadata");
	if (!rc && strlen(version) >= sizeof s->version)
		rc = err_set(e, ERR_BAD_DATA, "a resourceVersion of %zu bytes", strlen(version));
	if (!rc && strlen(more) > TOKEN_MAX)
		rc = err_set(e, ERR_BAD_DATA, "a continue token of %zu bytes", strlen(more));
	if (!rc) {
		snprintf(s->version, sizeof s->version, "%s", version);
		buf_reset(&s->more);
		buf_puts(&s->more, more);
	}
	json_decref(j);
	return rc;
}

/* --- the skeleton --- */

static bool is_key(const struct kube_scan *s, const char *key)
{
	return s->key_len == strlen(key) && memcmp(s->key, key, s->key_len) == 0;
}

static void begin_key(struct kube_scan *s)
{
	s->at = SCAN_IN_KEY;
	s->key_len = 0;
	s->escaped = false;
}

static void in_key(struct kube_scan *s, char c)
{
	if (c == '"' && !s->escaped) {
		s->at = SCAN_COLON;
		return;
	}
	s->escaped = c == '\\' && !s->escaped;
	if (s->key_len < sizeof s->key)
		s->key[s->key_len++] = c;
}

/* At the first byte of a member's value; false: it is not the value's, but was the bracket of the items. */
static int begin_member(struct kube_scan *s, char c, bool *ret_take, struct err *e)
{
	*ret_take = true;
	s->at = SCAN_IN_VALUE;
	if (c == ',' || c == ':' || c == '}' || c == ']')
		return malformed(e, "a member without a value");
	if (!is_key(s, "items")) {
		begin_value(s, is_key(s, "metadata"));
		return 0;
	}
	if (s->has_items)
		return malformed(e, "items twice");
	if (c != '[' && c != 'n')
		return err_set(e, ERR_BAD_DATA, "the answer is no list");
	s->has_items = true;
	begin_value(s, false);
	if (c == '[') {
		s->at = SCAN_FIRST_ITEM;
		*ret_take = false;
	}
	return 0;
}

/* One byte between values; *ret_take: it is the first one of a value. */
static int step(struct kube_scan *s, char c, bool *ret_take, struct err *e)
{
	*ret_take = false;
	if (s->at == SCAN_IN_KEY) {
		in_key(s, c);
		return 0;
	}
	if (is_blank(c))
		return 0;
	switch (s->at) {
	case SCAN_START:
		s->at = SCAN_FIRST_KEY;
		return c == '{' ? 0 : malformed(e, "it does not begin as an object");
	case SCAN_FIRST_KEY:
	case SCAN_KEY:
		if (c == '"')
			begin_key(s);
		else if (c == '}' && s->at == SCAN_FIRST_KEY)
			s->at = SCAN_DONE;
		else
			return malformed(e, "a key is missing");
		return 0;
	case SCAN_COLON:
		s->at = SCAN_VALUE;
		return c == ':' ? 0 : malformed(e, "a key without a value");
	case SCAN_VALUE:
		return begin_member(s, c, ret_take, e);
	case SCAN_AFTER_VALUE:
		s->at = c == ',' ? SCAN_KEY : SCAN_DONE;
		return c == ',' || c == '}' ? 0 : malformed(e, "something between two members");
	case SCAN_FIRST_ITEM:
	case SCAN_ITEM:
		if (c == ']' && s->at == SCAN_FIRST_ITEM) {
			s->at = SCAN_AFTER_VALUE;
			return 0;
		}
		s->at = SCAN_IN_ITEM;
		begin_value(s, true);
		*ret_take = true;
		return c == '{' ? 0 : err_set(e, ERR_BAD_DATA, "no JSON object in item %zu", s->items);
	case SCAN_AFTER_ITEM:
		s->at = c == ',' ? SCAN_ITEM : SCAN_AFTER_VALUE;
		return c == ',' || c == ']' ? 0 : malformed(e, "something between two items");
	default:
		return malformed(e, "something behind it");
	}
}

static int end_value(struct kube_scan *s, struct err *e)
{
	bool item = s->at == SCAN_IN_ITEM;
	s->at = item ? SCAN_AFTER_ITEM : SCAN_AFTER_VALUE;
	return item ? end_item(s, e) : s->keep ? end_metadata(s, e) : 0;
}

int kube_scan_put(struct kube_scan *s, const char *p, size_t n, struct err *e)
{
	for (size_t i = 0; i < n;) {
		bool take = s->at == SCAN_IN_VALUE || s->at == SCAN_IN_ITEM, whole;
		if (!take) {
			int rc = step(s, p[i], &take, e);
			if (rc)
				return rc;
			i += !take;
			continue;
		}
		size_t len = value_len(s, p + i, n - i, &whole);
		if (s->keep && !s->value.overflow)
			buf_put(&s->value, p + i, len);
		i += len;
		int rc = whole ? end_value(s, e) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

int kube_scan_end(const struct kube_scan *s, struct err *e)
{
	if (s->at != SCAN_DONE)
		return err_set(e, ERR_BAD_DATA, "no JSON: it ends in the middle");
	return s->has_items ? 0 : err_set(e, ERR_BAD_DATA, "the answer is no list");
}

void kube_scan_release(struct kube_scan *s)
{
	buf_free(&s->value);
	buf_free(&s->more);
}

/* --- lines --- */

bool kube_lines_put(struct kube_lines *l, const char *p, size_t n)
{
	l->part.max = KUBE_OBJECT_MAX;
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;
		if (!l->part.overflow)
			buf_put(&l->part, p, len);
		if (!nl)
			return true;
		bool good = true;
		if (l->part.overflow && l->too_long)
			l->too_long(l->arg);
		else if (!l->part.overflow && l->part.len)
			good = l->line(l->arg, buf_view(&l->part));
		buf_reset(&l->part);
		if (!good)
			return false;
		p += len + 1;
		n -= len + 1;
	}
	return true;
}

void kube_lines_release(struct kube_lines *l)
{
	buf_free(&l->part);
}

/* --- events --- */

static int type_of(const char *s, enum kube_event_type *ret)
{
	static const struct { const char *name; enum kube_event_type type; } types[] = {
		{ "ADDED", KUBE_PUT }, { "MODIFIED", KUBE_PUT }, { "DELETED", KUBE_DEL }, { "BOOKMARK", KUBE_BOOKMARK }, { "ERROR", KUBE_ERROR },
	};
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i].name, s) == 0) {
			*ret = types[i].type;
			return 0;
		}
	}
	return -1;
}

static int fill(struct kube_event *ev, struct err *e)
{
	const char *type = kube_text(ev->root, "type");
	if (type_of(type, &ev->type))
		return err_set(e, ERR_BAD_DATA, "an event of type \"%.30s\"", type);
	ev->object = json_object_get(ev->root, "object");
	ev->version = kube_text(ev->object, "metadata.resourceVersion");
	if (strlen(ev->version) >= KUBE_VERSION_LEN)
		return err_set(e, ERR_BAD_DATA, "a resourceVersion of %zu bytes", strlen(ev->version));
	if (ev->type != KUBE_ERROR && !json_is_object(ev->object))
		return err_set(e, ERR_BAD_DATA, "an event %s without an object", type);
	return 0;
}

int kube_event_read(struct kube_event *ret, struct view line, struct err *e)
{
	json_error_t why;
	struct kube_event ev = { .root = json_loadb(line.ptr, line.len, JSON_ALLOW_NUL, &why) };
	if (!ev.root && why_left_out(&why))
		return err_set(e, ERR_LIMIT, "%s", why_left_out(&why));
	if (!ev.root)
		return err_set(e, ERR_BAD_DATA, "an event that is no JSON: %s", why.text);
	int rc = fill(&ev, e);
	if (rc)
		kube_event_release(&ev);
	else
		*ret = ev;
	return rc;
}

void kube_event_release(struct kube_event *ev)
{
	json_decref(ev->root);
	ev->root = NULL;
}
