/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting in tests. A wait ends by a condition. Its time only guards against hanging: a machine that has more to do than its processors can
 * is no failure, so nobody chooses a shorter one. */
#ifndef PYRRHA_BASE_TESTWAIT_H
#define PYRRHA_BASE_TESTWAIT_H

#include "base/clock.h"

#define PATIENCE_MS 60000

/* Looks every ms until the condition holds. Its value: whether it does. */
#define TEST_WAIT(condition) ({ \
	int64_t test_wait_end_ = clock_mono_ms() + PATIENCE_MS; \
	bool test_wait_holds_; \
	while (!(test_wait_holds_ = (condition)) && clock_mono_ms() < test_wait_end_) \
		clock_sleep_ms(1); \
	test_wait_holds_; \
})

#endif
