/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the URL of an endpoint from its discovered labels. */
#include "discovery/endpoint.h"

static struct view place_path(const struct endpoint_kind *k, const struct endpoint_config *c, struct arena *a)
{
	struct view p = view_of(c->path_prefix);
	while (p.len && p.ptr[0] == '/')
		p = view_make(p.ptr + 1, p.len - 1);
	while (p.len && p.ptr[p.len - 1] == '/')
		p.len--;
	return view_of(arena_printf(a, "%s%.*s%s", p.len ? "/" : "", VIEW_ARG(p), k->path));
}

static void place_put_path(struct view path, struct buf *out)
{
	if (!path.len || path.ptr[0] != '/')
		buf_putc(out, '/');
	for (size_t i = 0; i < path.len; i++) {
		unsigned char ch = (unsigned char)path.ptr[i];
		if (ch <= ' ' || ch >= 0x7f || strchr("\"<>\\^`{|}?#%", ch))
			buf_printf(out, "%%%02X", ch);
		else
			buf_putc(out, (char)ch);
	}
}

static char *place_url(const struct endpoint_kind *k, struct labels l)
{
	struct buf b = { 0 };
	buf_printf(&b, "%.*s://%.*s", VIEW_ARG(labels_get(l, VIEW("__scheme__"))), VIEW_ARG(labels_get(l, VIEW("__address__"))));
	place_put_path(labels_get(l, view_of(k->path_label)), &b);
	return buf_take(&b, NULL);
}

static int place_check(const struct endpoint_kind *k, struct labels l, struct err *e)
{
	struct view address = labels_get(l, VIEW("__address__")), scheme = labels_get(l, VIEW("__scheme__"));
	if (!address.len)
		return err_set(e, ERR_BAD_DATA, "%s has no __address__", k->a);
	for (size_t i = 0; i < address.len; i++)
		if ((unsigned char)address.ptr[i] <= ' ' || strchr("/@?#\\", address.ptr[i]))
			return err_set(e, ERR_BAD_DATA, "__address__ of %s is not host:port: \"%.*s\"", k->a, VIEW_ARG(address));
	if (!view_eqs(scheme, "http") && !view_eqs(scheme, "https"))
		return err_set(e, ERR_BAD_DATA, "__scheme__ of the %s %.*s is neither http nor https", k->noun, VIEW_ARG(address));
	return 0;
}

static void place_put_all(struct labels_builder *b, struct labels l)
{
	for (size_t i = 0; i < l.n; i++)
		labels_builder_set(b, l.v[i].name, l.v[i].value);
}

int endpoint_place_make(const struct endpoint_kind *k, const struct endpoint_config *c, struct labels group, struct labels target, struct arena *a,
			struct endpoint_place *ret, struct err *e)
{
	struct labels_builder b;
	*ret = (struct endpoint_place){ 0 };
	labels_builder_init(&b, (struct labels){ 0 });
	place_put_all(&b, group);
	place_put_all(&b, target);
	labels_builder_set(&b, VIEW("__scheme__"), c->scheme ? VIEW("https") : VIEW("http"));
	labels_builder_set(&b, view_of(k->path_label), place_path(k, c, a));
	char *before = place_url(k, labels_builder_finish(&b));
	int kept = relabel_apply(c->relabel.v, c->relabel.n, &b, a, e);
	struct labels l = labels_builder_finish(&b);
	int rc = kept < 0 ? kept : kept ? place_check(k, l, e) : 0;
	ret->dropped = kept == 0;
	if (!rc)
		ret->url = kept ? place_url(k, l) : TAKE_PTR(before);
	free(before);
	labels_builder_free(&b);
	return rc;
}
