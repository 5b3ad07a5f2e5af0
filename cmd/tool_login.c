/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool make login DIR: the login of an installation, at its first start. DIR/web.yml is a web configuration with a user, stored
 * with only the bcrypt hash of the password, and with a token that may read. DIR/token is that token, for the server's own scrapes.
 * web.yml is written last and atomically, so if it exists, everything does. An existing login is never replaced. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/tool.h"
#include "httpd/bcrypt.h"
#include "httpd/web_config.h"

#define COST 10
#define PASSWORD_BYTES 16 /* random ones, in hexadecimal */
#define TOKEN_BYTES 32
#define PASSWORD_LEAST 12 /* characters of a password that the user chose */
#define PASSWORD_MOST 72  /* bytes that bcrypt looks at */

static int random_hex(size_t bytes, char *out, struct err *e)
{
	unsigned char random[TOKEN_BYTES];

	if (getrandom(random, bytes, 0) != (ssize_t)bytes)
		return err_errno(e, errno, "getrandom");
	for (size_t i = 0; i < bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
	explicit_bzero(random, sizeof random);
	return 0;
}

static int sync_dir(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) ? err_errno(e, errno, "cannot sync %s", dir) : 0;

	if (fd >= 0)
		close(fd);
	return rc;
}

/* A file that only its owner may read; it is written completely or not at all, and replaces nothing if `fresh`. */
static int put_file(const char *dir, const char *name, struct view text, bool fresh, struct err *e)
{
	char *path = NULL, *temp = NULL;
	int rc = 0, fd;

	if (asprintf(&path, "%s/%s", dir, name) < 0 || asprintf(&temp, "%s/.%s.new", dir, name) < 0)
		abort();
	unlink(temp); /* of a process that was killed */
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		rc = err_errno(e, errno, "cannot make %s", temp);
	else if (write(fd, text.ptr, text.len) != (ssize_t)text.len || fsync(fd))
		rc = err_errno(e, errno, "cannot write %s", temp);
	if (fd >= 0)
		close(fd);
	if (!rc && (fresh ? link(temp, path) : rename(temp, path)))
		rc = err_errno(e, errno, "cannot make %s", path);
	if (fd >= 0)
		unlink(temp);
	if (!rc)
		rc = sync_dir(dir, e);
	free(path);
	free(temp);
	return rc;
}

static int put_token(const char *dir, unsigned char ret_hash[WEB_SHA256], struct err *e)
{
	char token[2 * TOKEN_BYTES + 1];
	int rc = random_hex(TOKEN_BYTES, token, e);

	if (!rc)
		rc = put_file(dir, "token", view_of(token), false, e);
	web_config_hash(view_of(token), ret_hash);
	explicit_bzero(token, sizeof token);
	return rc;
}

static int put_login(const char *dir, const char *user, const char *password, struct err *e)
{
	unsigned char token[WEB_SHA256];
	char hash[BCRYPT_CHARS + 1];
	struct buf b = { 0 };
	int rc = bcrypt_make(view_of(password), COST, hash, e);

	if (!rc)
		rc = put_token(dir, token, e);
	if (rc)
		return rc;
	buf_printf(&b, "# Made by pyrtool make login. It is read again when it changes.\n"
		       "basic_auth_users:\n  '%s': '%s'\n"
		       "tokens:\n  # The file beside this one has it: a job says authorization: {credentials_file: token}.\n"
		       "  - name: pyrrha\n    rights: [read]\n    sha256: ", user, hash);
	for (size_t i = 0; i < sizeof token; i++)
		buf_printf(&b, "%02x", token[i]);
	buf_putc(&b, '\n');
	rc = put_file(dir, "web.yml", buf_view(&b), true, e);
	buf_free(&b);
	return rc;
}

/* The first line of standard input. */
static int read_password(char out[PASSWORD_MOST + 3], struct err *e)
{
	if (!fgets(out, PASSWORD_MOST + 3, stdin))
		return err_set(e, ERR_BAD_DATA, "standard input has no password");
	out[strcspn(out, "\r\n")] = 0;
	if (strlen(out) > PASSWORD_MOST)
		return err_set(e, ERR_BAD_DATA, "bcrypt takes passwords of at most %d bytes", PASSWORD_MOST);
	if (strlen(out) < PASSWORD_LEAST)
		return err_set(e, ERR_BAD_DATA, "a password has at least %d characters", PASSWORD_LEAST);
	return 0;
}

static bool plain_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	return n && !s[n] && s[0] != '-';
}

static bool is_there(const char *dir)
{
	char *path;

	if (asprintf(&path, "%s/web.yml", dir) < 0)
		abort();
	bool there = access(path, F_OK) == 0;
	free(path);
	return there;
}

/* 1: it is there already. Two at a time: the second waits, and finds it there. */
static int make_login(const char *dir, const char *user, char password[PASSWORD_MOST + 3], struct err *e)
{
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_errno(e, errno, "cannot make %s", dir);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "cannot open %s", dir);
	int rc = flock(fd, LOCK_EX) ? err_errno(e, errno, "cannot lock %s", dir) : is_there(dir) ? 1 : put_login(dir, user, password, e);
	close(fd);
	return rc;
}

int tool_make_login(int argc, char **argv)
{
	const char *user = "admin";
	bool from_stdin = false;
	struct opt flags[] = {
		{ "user", OPT_STRING, &user, "<name>", "The login's name." },
		{ "password-stdin", OPT_BOOL, &from_stdin, NULL, "The first line of standard input is the password; without this one is made, and told once." },
	};
	struct err e;
	int words, status;

	if (!tool_flags(tool_command("make login"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (words != 1 || !plain_name(user)) {
		fprintf(stderr, words == 1 ? "pyrtool make login: --user is letters, digits, '.', '_' and '-'\n" : "pyrtool make login: into which directory?\n");
		return TOOL_USAGE;
	}
	char password[PASSWORD_MOST + 3];
	int rc = is_there(argv[1]) ? 1 : from_stdin ? read_password(password, &e) : random_hex(PASSWORD_BYTES, password, &e);
	if (!rc)
		rc = make_login(argv[1], user, password, &e);
	if (!rc && !from_stdin)
		printf("login: %s  password: %s  (shown only now)\n", user, password);
	explicit_bzero(password, sizeof password);
	if (rc < 0)
		return tool_fail("make login", &e);
	if (rc)
		printf("%s/web.yml is there already, and stays: remove it, and %s/token, for another login\n", argv[1], argv[1]);
	return fflush(stdout) ? TOOL_FAILED : TOOL_OK;
}
