/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the URL of an Alertmanager from its discovered labels. Labels that steer: __address__, __scheme__, __alerts_path__. */
#include <stdio.h>

#include "rules/notifier/notifier_config.h"

#define ALERTS_PATH "/api/v2/alerts"

static struct view alerts_path(const struct alertmanager_config *c, struct arena *a)
{
	struct view p = view_of(c->path_prefix);
	while (p.len && p.ptr[0] == '/')
		p = view_make(p.ptr + 1, p.len - 1);
	while (p.len && p.ptr[p.len - 1] == '/')
		p.len--;
	return view_of(arena_printf(a, "%s%.*s%s", p.len ? "/" : "", VIEW_ARG(p), ALERTS_PATH));
}

static void put_path(struct view path, struct buf *out)
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

static char *make_url(struct labels l)
{
	struct buf b = { 0 };
	buf_printf(&b, "%.*s://%.*s", VIEW_ARG(labels_get(l, VIEW("__scheme__"))), VIEW_ARG(labels_get(l, VIEW("__address__"))));
	put_path(labels_get(l, VIEW("__alerts_path__")), &b);
	return buf_take(&b, NULL);
}

static int check_place(struct labels l, struct err *e)
{
	struct view address = labels_get(l, VIEW("__address__")), scheme = labels_get(l, VIEW("__scheme__"));
	if (!address.len)
		return err_set(e, ERR_BAD_DATA, "an Alertmanager has no __address__");
	for (size_t i = 0; i < address.len; i++)
		if ((unsigned char)address.ptr[i] <= ' ' || strchr("/@?#\\", address.ptr[i]))
			return err_set(e, ERR_BAD_DATA, "__address__ of an Alertmanager is not host:port: \"%.*s\"", VIEW_ARG(address));
	if (!view_eqs(scheme, "http") && !view_eqs(scheme, "https"))
		return err_set(e, ERR_BAD_DATA, "__scheme__ of the Alertmanager %.*s is neither http nor https", VIEW_ARG(address));
	return 0;
}

static void put_all(struct labels_builder *b, struct labels l)
{
	for (size_t i = 0; i < l.n; i++)
		labels_builder_set(b, l.v[i].name, l.v[i].value);
}

int alertmanager_place_make(const struct alertmanager_config *c, struct labels group, struct labels target, struct arena *a,
			    struct alertmanager_place *ret, struct err *e)
{
	struct labels_builder b;
	*ret = (struct alertmanager_place){ 0 };
	labels_builder_init(&b, (struct labels){ 0 });
	put_all(&b, group);
	put_all(&b, target);
	labels_builder_set(&b, VIEW("__scheme__"), c->scheme ? VIEW("https") : VIEW("http"));
	labels_builder_set(&b, VIEW("__alerts_path__"), alerts_path(c, a));
	char *before = make_url(labels_builder_finish(&b));
	int kept = relabel_apply(c->relabel.v, c->relabel.n, &b, a, e);
	struct labels l = labels_builder_finish(&b);
	int rc = kept < 0 ? kept : kept ? check_place(l, e) : 0;
	ret->dropped = kept == 0;
	if (!rc)
		ret->url = kept ? make_url(l) : TAKE_PTR(before);
	free(before);
	labels_builder_free(&b);
	return rc;
}
