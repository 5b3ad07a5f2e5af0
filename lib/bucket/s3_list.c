/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/s3_list.h"

#include "base/clock.h"
#include "base/num.h"
#include "bucket/s3_xml.h"
#include "fetch/fetch.h"

struct s3_list {
	const char *after;           /* the last key that was read; before the first one, the key that the page begins behind. Keys must rise from it */
	struct view prefix;
	struct backend_page *page;
	struct buf key;              /* of the object that is being read */
	uint64_t size;
	int64_t modified_ms;
	bool has_size, encoded, is_list;
};

void s3_list_query(const char *prefix, const char *after, struct buf *out)
{
	buf_printf(out, "encoding-type=url&list-type=2&max-keys=%d&prefix=", BACKEND_PAGE);
	fetch_url_escape(view_of(prefix), out);
	if (*after) {
		buf_puts(out, "&start-after=");
		fetch_url_escape(view_of(after), out);
	}
}

static int s3_list_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; false: it is no such text. A blank is '+' in AWS's answers and %20 in others'. */
static bool s3_list_decode(char *key)
{
	char *to = key;
	for (const char *p = key; *p; p++) {
		if (*p != '%') {
			*to++ = *p == '+' ? ' ' : *p;
			continue;
		}
		int high = s3_list_hex(p[1]), low = high < 0 ? -1 : s3_list_hex(p[2]);
		if (low < 0 || !(high | low))
			return false;
		*to++ = (char)(high << 4 | low);
		p += 2;
	}
	*to = 0;
	return true;
}

static int s3_list_add(struct s3_list *l, struct err *e)
{
	struct objects_found x = { .key = l->key.ptr, .size = l->size, .modified_ms = l->modified_ms };
	if (!l->key.len || !l->has_size)
		return err_set(e, ERR_BAD_DATA, "the list has an object without a key or a size");
	if (l->encoded && !s3_list_decode(l->key.ptr))
		return err_set(e, ERR_BAD_DATA, "the list has a key that is not URL-encoded, as it should be");
	if (!view_starts(view_of(x.key), l->prefix) || strcmp(x.key, l->after) <= 0)
		return err_set(e, ERR_BAD_DATA, "the list has keys that were not asked for, or not in the order of their bytes; "
			       "this store cannot be used (an S3 Express bucket?)");
	int rc = backend_page_add(l->page, &x, e);
	if (rc)
		return rc;
	l->after = l->page->v.v[l->page->v.n - 1].key;
	l->has_size = false;
	l->modified_ms = 0;
	buf_reset(&l->key);
	return 0;
}

/* What the answer says about itself: it may come after the keys. */
static int s3_list_about(void *arg, const char *path, struct view text, struct err *e)
{
	struct s3_list *l = arg;
	if (strcmp(path, "ListBucketResult") == 0)
		l->is_list = true;
	else if (strcmp(path, "ListBucketResult/EncodingType") == 0)
		l->encoded = view_eqs(text, "url");
	else if (strcmp(path, "ListBucketResult/IsTruncated") == 0)
		l->page->more = view_eqs(text, "true");
	return 0;
}

static int s3_list_object(void *arg, const char *path, struct view text, struct err *e)
{
	struct s3_list *l = arg;
	if (strcmp(path, "ListBucketResult/Contents/Key") == 0) {
		buf_reset(&l->key);
		buf_putv(&l->key, text);
	} else if (strcmp(path, "ListBucketResult/Contents/Size") == 0) {
		l->has_size = num_parse_u64(text, &l->size);
	} else if (strcmp(path, "ListBucketResult/Contents/LastModified") == 0) {
		if (!clock_parse_time_ms(text, &l->modified_ms))
			l->modified_ms = 0;
	} else if (strcmp(path, "ListBucketResult/Contents") == 0) {
		return s3_list_add(l, e);
	}
	return 0;
}

int s3_list_read(struct view doc, const char *prefix, const char *after, struct backend_page *page, struct err *e)
{
	struct s3_list l = { .prefix = view_of(prefix), .after = after, .page = page };
	int rc = s3_xml_each(doc, s3_list_about, &l, e);
	if (!rc && !l.is_list)
		rc = err_set(e, ERR_BAD_DATA, "the answer is not a list of objects: does S3 answer at this endpoint?");
	if (!rc)
		rc = s3_xml_each(doc, s3_list_object, &l, e);
	buf_free(&l.key);
	if (!rc && page->more && !page->v.n)
		rc = err_set(e, ERR_BAD_DATA, "the list is said to go on, but has no key to go on from");
	return rc;
}
