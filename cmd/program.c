/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/program.h"

#include <unistd.h>

#include "base/log.h"

int program_set_log(const char *level, const char *format, struct err *e)
{
	enum log_level l;
	enum log_format f;
	if (!log_parse_level(level, &l))
		return err_set(e, ERR_BAD_DATA, "--log.level: \"%s\" is none of debug, info, warn, error", level);
	if (!log_parse_format(format, &f))
		return err_set(e, ERR_BAD_DATA, "--log.format: \"%s\" is neither logfmt nor json", format);
	log_setup(l, f);
	return 0;
}

void program_block_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGHUP);
	pthread_sigmask(SIG_BLOCK, ret, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void program_wait(const sigset_t *signals, void (*reload)(void *arg), void *arg)
{
	for (;;) {
		int sig;
		if (sigwait(signals, &sig))
			continue;
		if (sig != SIGHUP) {
			LOG_INFO("msg", "stopping", "signal", sig == SIGINT ? "SIGINT" : "SIGTERM");
			return;
		}
		reload(arg);
	}
}

static void too_slow(int sig)
{
	static const char text[] = "level=error msg=\"stopping took too long, ending now\"\n";
	(void)sig;
	if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
		/* nobody is left to tell */
	}
	_exit(1);
}

void program_end_within(unsigned seconds)
{
	signal(SIGALRM, too_slow);
	alarm(seconds);
}
