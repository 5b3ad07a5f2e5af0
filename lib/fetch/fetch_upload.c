/* SPDX-License-Identifier: Apache-2.0 */
/* A body that is read piece by piece while it is sent.
 *
 * A server that refuses a request may answer before it has read the body, and then close the connection. What is sent after that is answered by
 * a reset, and curl reports that sending failed instead of the answer. The answer still can be read from the socket then: curl has closed its
 * descriptor, so there is a second one. That works without TLS only; servers with TLS mostly read on for a while. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fetch/fetch_internal.h"

#define LATE_MAX 16384 /* bytes that are read of an answer that came before the upload was sent, after the connection was reset */

void fetch_upload_watch(struct fetch *f, int fd)
{
	if (f->upload_socket >= 0)
		close(f->upload_socket);
	f->upload_socket = f->upload && fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;
	n = MIN(n * size, f->upload->size - f->uploaded);
	if (!n)
		return 0;
	if (f->upload->read(f->upload->arg, f->uploaded, p, n, &f->upload_error))
		return CURL_READFUNC_ABORT;
	if (f->stall_ms)
		f->moved_ns = clock_mono_ns();
	f->uploaded += n;
	return n;
}

static int on_upload_again(void *arg, curl_off_t offset, int origin)
{
	struct fetch *f = arg;
	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > f->upload->size)
		return CURL_SEEKFUNC_CANTSEEK;
	f->uploaded = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

void fetch_upload_set(struct fetch *f, const struct fetch_request *q)
{
	CURL *h = f->easy;
	f->upload = q->upload;
	curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->upload->size);
	curl_easy_setopt(h, CURLOPT_READFUNCTION, on_upload);
	curl_easy_setopt(h, CURLOPT_READDATA, f);
	curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, on_upload_again);
	curl_easy_setopt(h, CURLOPT_SEEKDATA, f);
	f->headers = curl_slist_append(f->headers, "Expect:"); /* no 100-continue: a server that does not know it costs a second */
	if (q->method && strcmp(q->method, "PUT") != 0)
		curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, q->method);
}

bool fetch_upload_late_answer(struct fetch *f)
{
	char text[LATE_MAX + 1];
	size_t n = 0;
	for (ssize_t got = 1; got > 0 && n<LATE_MAX; n += got> 0 ? (size_t)got : 0)
		got = recv(f->upload_socket, text + n, LATE_MAX - n, MSG_DONTWAIT);
	text[n] = 0;
	const char *body = strstr(text, "\r\n\r\n");
	if (n < 12 || strncmp(text, "HTTP/1.", 7) != 0 || text[8] != ' ' || !body)
		return false;
	int status = 0;
	for (int i = 9; i < 12; i++)
		status = status * 10 + (text[i] - '0');
	if (status < 200 || status > 599)
		return false;
	f->response.status = status;
	buf_puts(&f->response.body, body + 4);
	if (f->on_head)
		f->on_head(f->on_data_arg, &f->response);
	return true;
}
