/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials from the environment and from AWS's file of them:
 *
 *	[default]
 *	aws_access_key_id = ...
 *	aws_secret_access_key = ...
 *	aws_session_token = ... */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "bucket/credentials_source.h"

#define CREDENTIALS_FILE_MAX ((size_t)1 << 20)
#define CREDENTIALS_REREAD_MS 60000 /* other programs rewrite the file */

const char *credentials_env(const char *name)
{
	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

int credentials_from_env(struct credentials_found *ret, struct err *e)
{
	const char *access = credentials_env("AWS_ACCESS_KEY_ID"), *secret = credentials_env("AWS_SECRET_ACCESS_KEY");
	if (!access && !secret)
		return 1;
	return credentials_found_set(ret, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", view_of(access), view_of(secret),
				     view_of(credentials_env("AWS_SESSION_TOKEN")), e);
}

static bool credentials_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct view credentials_trim(struct view v)
{
	while (v.len && credentials_blank(v.ptr[v.len - 1]))
		v.len--;
	while (v.len && credentials_blank(*v.ptr))
		v = view_make(v.ptr + 1, v.len - 1);
	return v;
}

struct credentials_profile {
	bool found;
	struct view access_key, secret_key, session_token;
};

static void credentials_read_line(struct view line, const char *profile, bool *inside, struct credentials_profile *p)
{
	line = credentials_trim(line);
	if (!line.len || *line.ptr == '#' || *line.ptr == ';')
		return;
	if (*line.ptr == '[') {
		struct view rest = view_make(line.ptr + 1, line.len - 1);
		*inside = view_eqs(credentials_trim(view_cut(&rest, ']')), profile);
		p->found |= *inside;
		return;
	}
	if (!*inside)
		return;
	struct view name = credentials_trim(view_cut(&line, '=')), value = credentials_trim(line);
	if (view_eqs(name, "aws_access_key_id"))
		p->access_key = value;
	else if (view_eqs(name, "aws_secret_access_key"))
		p->secret_key = value;
	else if (view_eqs(name, "aws_session_token"))
		p->session_token = value;
}

static int credentials_read_file(const char *path, const char *profile, struct view text, bool named, struct credentials_found *ret, struct err *e)
{
	struct credentials_profile p = { 0 };
	bool inside = false;
	char what[512];
	while (text.len)
		credentials_read_line(view_cut(&text, '\n'), profile, &inside, &p);
	if (!p.found && !named)
		return 1;
	if (!p.found)
		return err_set(e, ERR_DENIED, "%s has no profile [%s]", path, profile);
	if (!p.access_key.len && !p.secret_key.len)
		return err_set(e, ERR_DENIED, "profile [%s] of %s has no aws_access_key_id (single sign-on, roles and programs are not supported)", profile, path);
	snprintf(what, sizeof what, "profile [%s] of %s", profile, path);
	int rc = credentials_found_set(ret, what, p.access_key, p.secret_key, p.session_token, e);
	ret->reread_ms = CREDENTIALS_REREAD_MS;
	return rc;
}

int credentials_from_file(struct credentials_found *ret, struct err *e)
{
	char path[4096];
	const char *file = credentials_env("AWS_SHARED_CREDENTIALS_FILE"), *profile = credentials_env("AWS_PROFILE"), *home = credentials_env("HOME");
	struct buf text = { .max = CREDENTIALS_FILE_MAX };
	struct err why = { 0 };
	if (!file && !home)
		return 1;
	snprintf(path, sizeof path, "%s%s", file ? file : home, file ? "" : "/.aws/credentials");
	int rc = buf_read_file(&text, path, &why);
	if (!rc)
		rc = credentials_read_file(path, profile ? profile : "default", buf_view(&text), file || profile, ret, e);
	else if (!file && !profile)
		rc = 1; /* also one that may not be read: services run as a user without a home */
	else
		rc = err_set(e, ERR_DENIED, "%s", why.msg);
	if (text.ptr)
		explicit_bzero(text.ptr, text.len);
	buf_free(&text);
	return rc;
}
