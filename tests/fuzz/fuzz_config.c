/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the server's configuration. What is refused says why; what is YAML can be shown without its secrets, and
 * what is shown is YAML that shows the same again. */
#include <string.h>

#include "config/config_top.h"
#include "scraper/scraper.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "config";

static void decode(const struct config_tree *t)
{
	struct scraper_config *c = NULL;
	struct arena a CLEANUP(arena_free);
	struct config_ctx ctx = { .arena = &a };
	struct err e = { 0 };
	arena_init(&a, 0);
	int rc = config_check_top(t, &ctx, &e);
	config_ctx_release(&ctx);
	if (!rc && !config_get(config_root(t), "scrape_config_files")) /* those would be read */
		rc = scraper_config_parse(&c, t, NULL, NULL, &e);
	REQUIRE(!rc || e.msg[0], "an error without words");
	if (!c)
		return;
	struct buf text = { 0 };
	scraper_config_check(c, &text);
	REQUIRE(text.len > 0, "nothing to say");
	buf_free(&text);
	scraper_config_unref(c);
}

static void show(const struct config_tree *t)
{
	struct buf one = { 0 }, two = { 0 };
	struct config_tree *again = NULL;
	struct err e = { 0 };
	config_redact(t, &one);
	if (!one.overflow) {
		REQUIRE(config_parse(&again, buf_view(&one), "again", &e) == 0, "%s\n%s", e.msg, one.ptr);
		config_redact(again, &two);
		REQUIRE(view_eq(buf_view(&one), buf_view(&two)), "%s\n%s", one.ptr, two.ptr);
		config_free(again);
	}
	buf_free(&one);
	buf_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	if (n > 1 << 14)
		return 0;
	if (config_parse(&t, view_make((const char *)data, n), "fuzz.yml", &e)) {
		REQUIRE(e.msg[0], "an error without words");
		return 0;
	}
	decode(t);
	show(t);
	config_free(t);
	return 0;
}
