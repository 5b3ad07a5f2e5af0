/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting in tests. A wait ends by a condition. Its time only guards against hanging: a machine that has more to do than its processors can
 * is no failure, so nobody chooses a shorter one. */
#ifndef PYRRHA_BASE_TESTWAIT_H
#define PYRRHA_BASE_TESTWAIT_H

#include "base/clock.h"

#define PATIENCE_MS 60000

/* Looks each ms until the condition holds; less often if looking takes long, because it may hold up whom it waits for. Its value: whether it
 * holds. */
#define TEST_WAIT(condition) ({ \
	int64_t test_wait_begin_ = clock_mono_ms(), test_wait_from_; \
	bool test_wait_holds_; \
	while (test_wait_from_ = clock_mono_ms(), !(test_wait_holds_ = (condition)) && test_wait_from_ < test_wait_begin_ + PATIENCE_MS) \
		clock_sleep_ms(1 + 9 * (clock_mono_ms() - test_wait_from_)); \
	test_wait_holds_; \
})

#endif
