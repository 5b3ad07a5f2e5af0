/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what S3 answers: the page of a list, and the words of a refusal. What is taken in are keys that were asked for, in their order; what is refused
 * says why, and never with a credential. */
#include <stdlib.h>
#include <string.h>

#include "bucket/s3_error.h"
#include "bucket/s3_list.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "s3";

static void read_list(struct view doc, const char *prefix, const char *after)
{
	struct backend_page page;
	struct err e = { 0 };
	backend_page_init(&page);
	int rc = s3_list_read(doc, prefix, after, &page, &e);
	REQUIRE(!rc || (rc == -(int)e.code && e.msg[0]), "an error without words");
	for (size_t i = 0; !rc && i < page.v.n; i++) {
		const char *key = page.v.v[i].key;
		REQUIRE(strcmp(key, i ? page.v.v[i - 1].key : after) > 0, "not in order: %s", key);
		REQUIRE(strncmp(key, prefix, strlen(prefix)) == 0, "not asked for: %s", key);
	}
	REQUIRE(rc || !page.more || page.v.n, "a list that does not go on");
	backend_page_free(&page);
}

static void read_refusal(struct view body, int status, enum s3_operation operation)
{
	struct s3_answer x = { .status = status, .body = body, .region = "", .date = "", .retry_after_s = -1 };
	struct s3_context c = { .operation = operation, .key = "k", .bucket = "b", .endpoint = "e", .region = "r",
				.secrets = { VIEW("AKIDFUZZ"), VIEW("secretFuzz"), VIEW("") } };
	struct backend_attempt a = { 0 };
	struct err e = { 0 };
	bool expired;
	uint64_t size;
	int rc = s3_error_set(&x, &c, &a, &expired, &e);
	REQUIRE(rc < 0 && rc == -(int)e.code && e.msg[0], "an error without words");
	REQUIRE(!strstr(e.msg, "AKIDFUZZ") && !strstr(e.msg, "secretFuzz"), "a secret: %s", e.msg);
	for (const char *p = e.msg; *p; p++)
		REQUIRE((unsigned char)*p >= ' ', "a control character: %s", e.msg);
	IGNORE(s3_error_size(body, &size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view doc = view_make((const char *)data, n);
	if (n > 1 << 16)
		return 0;
	read_list(doc, "a/", "");
	read_list(doc, "", "a/b");
	read_refusal(doc, 403, S3_PUT);
	read_refusal(doc, 404, S3_GET);
	read_refusal(doc, 301, S3_LIST);
	return 0;
}
