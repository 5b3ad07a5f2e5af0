/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a list of target groups, as files and HTTP servers give them: as JSON, and as YAML. What is refused says why and
 * leaves nothing; what is taken in is made of proper labels, and the same when it is read once more. */
#include "discovery/target_groups.h"
#include "tests/fuzz/sd.h"

const char fuzz_target[] = "sdlists";

typedef int (*reader)(struct view text, const struct target_origin *o, struct target_groups *ret, struct err *e);

static void read_list(reader read, struct view text)
{
	const struct target_origin o = { "list", "__meta_filepath", "list" };
	struct target_groups one = { 0 }, two = { 0 };
	struct err e = { 0 };
	if (read(text, &o, &one, &e)) {
		REQUIRE(e.msg[0], "an error without words");
		REQUIRE(!one.v.n, "%zu groups beside an error", one.v.n);
		return;
	}
	REQUIRE(read(text, &o, &two, &e) == 0 && one.v.n == two.v.n, "another list the second time: %s", e.msg);
	for (size_t i = 0; i < one.v.n; i++) {
		sd_check_group(one.v.v[i]);
		REQUIRE(discovery_group_eq(one.v.v[i], two.v.v[i]), "group %zu differs the second time", i);
	}
	target_groups_release(&one);
	target_groups_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view text = view_make((const char *)data, n);
	if (n > 1 << 14)
		return 0;
	read_list(target_groups_json, text);
	read_list(target_groups_yaml, text);
	return 0;
}
