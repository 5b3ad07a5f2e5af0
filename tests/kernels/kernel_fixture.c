/* SPDX-License-Identifier: Apache-2.0 */
/* Burns CPU three calls deep, compiled without frame pointers. It rests most of the time: what it burns is emulated on the processors that
 * everything else is emulated on, and a third of a second is thirty samples. */
#include <unistd.h>

static volatile unsigned long sink;
void fixture_leaf(int n);
void fixture_middle(int n);

__attribute__((noinline, noclone)) void fixture_leaf(int n)
{
	for (int i = 0; i < n; i++)
		sink += (unsigned long)i * 7;
}

__attribute__((noinline, noclone)) void fixture_middle(int n)
{
	char room[256];
	__asm__ volatile("" : : "r"(room) : "memory");
	fixture_leaf(n);
	sink++;
}

int main(void)
{
	for (;;) {
		for (int i = 0; i < 100; i++)
			fixture_middle(10000);
		usleep(40000);
	}
}
