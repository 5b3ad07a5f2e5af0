/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/s3_xml.h"

#include <expat.h>

#include "base/buf.h"

#define S3_XML_NAME 64

struct s3_xml {
	XML_Parser parser;
	int (*end)(void *arg, const char *path, struct view text, struct err *e);
	void *arg;
	struct err *e;
	int rc;
	size_t depth;
	size_t path_end[S3_XML_DEPTH];  /* bytes of path that name the elements above */
	size_t text_begin[S3_XML_DEPTH]; /* where an element's own text begins: after that of those above it */
	struct buf path, text;
};

static void s3_xml_stop(struct s3_xml *x, int rc)
{
	if (!x->rc)
		x->rc = rc;
	XML_StopParser(x->parser, XML_FALSE);
}

static void on_start(void *arg, const char *name, const char **attributes)
{
	struct s3_xml *x = arg;
	const char *colon = strchr(name, ':'); /* a prefix of a name space; there is only one that matters */
	name = colon ? colon + 1 : name;
	if (x->depth == S3_XML_DEPTH || strlen(name) > S3_XML_NAME) {
		s3_xml_stop(x, err_set(x->e, ERR_BAD_DATA, "the answer's XML is nested deeper than %d, or has a name longer than %d bytes", S3_XML_DEPTH, S3_XML_NAME));
		return;
	}
	x->path_end[x->depth] = x->path.len;
	x->text_begin[x->depth++] = x->text.len;
	buf_printf(&x->path, "%s%s", x->path.len ? "/" : "", name);
}

static void on_end(void *arg, const char *name)
{
	struct s3_xml *x = arg;
	size_t begin = x->text_begin[--x->depth];
	struct view text = view_make(buf_view(&x->text).ptr + begin, x->text.len - begin);
	int rc = x->rc ? x->rc : x->end(x->arg, x->path.ptr, text, x->e);
	x->path.len = x->path_end[x->depth];
	x->path.ptr[x->path.len] = 0;
	x->text.len = begin;
	if (rc)
		s3_xml_stop(x, rc);
}

static void on_text(void *arg, const char *p, int n)
{
	struct s3_xml *x = arg;
	if (x->text.len + (size_t)n > S3_XML_TEXT)
		s3_xml_stop(x, err_set(x->e, ERR_BAD_DATA, "the answer's XML has a text longer than %d bytes", S3_XML_TEXT));
	else
		buf_put(&x->text, p, (size_t)n);
}

static void on_doctype(void *arg, const char *name, const char *system, const char *public, int internal)
{
	struct s3_xml *x = arg;
	s3_xml_stop(x, err_set(x->e, ERR_BAD_DATA, "the answer is not S3's: its XML declares a document type"));
}

int s3_xml_each(struct view doc, int (*end)(void *arg, const char *path, struct view text, struct err *e), void *arg, struct err *e)
{
	struct s3_xml x = { .parser = XML_ParserCreate("UTF-8"), .end = end, .arg = arg, .e = e };
	if (!x.parser)
		return err_set(e, ERR_INTERNAL, "expat gives no parser");
	if (doc.len > S3_XML_MAX) {
		XML_ParserFree(x.parser);
		return err_set(e, ERR_BAD_DATA, "the answer's XML is larger than %llu bytes", (unsigned long long)S3_XML_MAX);
	}
	XML_SetUserData(x.parser, &x);
	XML_SetElementHandler(x.parser, on_start, on_end);
	XML_SetCharacterDataHandler(x.parser, on_text);
	XML_SetStartDoctypeDeclHandler(x.parser, on_doctype);
	if (XML_Parse(x.parser, doc.ptr, (int)doc.len, 1) != XML_STATUS_OK && !x.rc)
		x.rc = err_set(e, ERR_BAD_DATA, "the answer is not XML: %s in line %lu", XML_ErrorString(XML_GetErrorCode(x.parser)),
			       (unsigned long)XML_GetCurrentLineNumber(x.parser));
	XML_ParserFree(x.parser);
	buf_free(&x.path);
	buf_free(&x.text);
	return x.rc;
}
