/* SPDX-License-Identifier: Apache-2.0 */
/* The fault layer: a library for LD_PRELOAD that stands between a program and the C library for files below one
 * directory ($FAULTS_DIR, absolute). It counts their system calls, fails some of them, and keeps account of what was
 * synced, so that it can play a power loss. Then the process dies. Of a file stays what fsync or fdatasync covered, and none,
 * a random part or all of the rest, which may be torn or zeroed in places. Of a directory stay the names that an fsync of it
 * covered, and a random prefix, or any random part, of what was done after. So a file that was synced while its directory
 * was not may be gone.
 *
 * $FAULTS says what happens when the program starts, or faults_arm() at any later time:
 *
 *	KIND:AT[:COUNT][,KIND:AT[:COUNT]...]
 *
 * AT counts the calls that KIND is about, from now on. It happens at that call and at the COUNT - 1 after it (default 1, 0 = all):
 *
 *	kill       of those that change something: SIGKILL to the process
 *	power      the same: the power fails
 *	powersync  fsync, fdatasync: the power fails before it
 *	write      write: EIO               space      write, open that makes a file, mkdir, link, rename: ENOSPC
 *	shortwrite write: half, then ENOSPC sync       fsync, fdatasync: EIO, and the data is lost at a power loss
 *	open       open: EMFILE             rename     rename, link: EIO         unlink   unlink: EIO
 *	readonly   whatever would change something: EROFS
 *	read       read: EIO                shortread  read: half of it          flip     read: one bit is another
 *
 * With $FAULTS_WHILE a call counts (of all kinds but kill and the losses of power) only while a file of that name is there: a test of a
 * server that runs makes and removes it. $FAULTS_SEED seeds what is random. Every call that changes something, and what the
 * power loss took, is written to the file $FAULTS_TRACE; with it what the loss left stays as a copy beside the directory,
 * $FAULTS_DIR.after. With the sanitizers: ASAN_OPTIONS=verify_asan_link_order=0. Not for several processes in
 * one directory. */
#ifndef PYRRHA_TESTS_FAULTS_H
#define PYRRHA_TESTS_FAULTS_H

/* Forgets what was to happen and counts from here on. NULL = nothing. A program finds it with dlsym(). */
void faults_arm(const char *spec);
/* How many calls changed something since then; for choosing AT. */
unsigned long faults_changes(void);
/* How many faults were injected since then. */
unsigned long faults_injected(void);

#endif
