/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a key: checked when they come from a source, overwritten when they go. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bucket/credentials_source.h"

static void credentials_wipe(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void credentials_key_release(struct credentials_key *k)
{
	credentials_wipe(&k->access_key);
	credentials_wipe(&k->secret_key);
	credentials_wipe(&k->session_token);
}

static bool credentials_sendable(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.ptr[i] <= ' ' || v.ptr[i] >= 0x7f)
			return false;
	return v.len <= CREDENTIALS_TEXT_MAX;
}

int credentials_found_set(struct credentials_found *f, const char *what, struct view access_key, struct view secret_key, struct view session_token,
			  struct err *e)
{
	if (!access_key.len || !secret_key.len)
		return err_set(e, ERR_DENIED, "%s: %s is missing", what, access_key.len ? "the secret key" : "the access key");
	/* In the header Authorization a slash follows the access key and a comma ends the credential, so the key may have neither. */
	if (!credentials_sendable(access_key) || memchr(access_key.ptr, '/', access_key.len) || memchr(access_key.ptr, ',', access_key.len) ||
	    !credentials_sendable(secret_key) || !credentials_sendable(session_token))
		return err_set(e, ERR_DENIED, "%s: a key or the token has blanks or other characters that credentials do not have, or is too long", what);
	*f = (struct credentials_found){ .expires_ms = INT64_MAX };
	f->key.access_key = xstrndup(access_key.ptr, access_key.len);
	f->key.secret_key = xstrndup(secret_key.ptr, secret_key.len);
	f->key.session_token = session_token.len ? xstrndup(session_token.ptr, session_token.len) : xstrdup("");
	return 0;
}
