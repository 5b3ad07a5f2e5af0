/* SPDX-License-Identifier: Apache-2.0 */
/* Runs all of its code once, says so, and goes on without anything else. Takes its name from its first argument. It rests most of the time,
 * as kernel_fixture.c. */
#include <sys/prctl.h>
#include <unistd.h>

volatile unsigned long sink;

__attribute__((noinline)) static void silent_leaf(void)
{
	for (int i = 0; i < 100000; i++)
		sink += 7;
}

int main(int argc, char **argv)
{
	prctl(PR_SET_NAME, argv[0]);
	silent_leaf();
	usleep(1);
	if (write(1, "x\n", 2) != 2)
		return 1;
	for (;;) {
		for (int i = 0; i < 10; i++)
			silent_leaf();
		usleep(40000);
	}
}
