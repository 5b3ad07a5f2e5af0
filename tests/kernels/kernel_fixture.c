/* SPDX-License-Identifier: Apache-2.0 */
/* Burns CPU three calls deep, compiled without frame pointers. */
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
	for (;;)
		fixture_middle(10000);
}
