/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and sizes as Prometheus spells them: "1h30m", "15d", "512MB". */
#ifndef PYRRHA_BASE_UNITS_H
#define PYRRHA_BASE_UNITS_H

#include "base/view.h"

/* ((\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?|0) into ms; y = 365d. False: not of that form, or too long. */
bool units_parse_duration(struct view v, int64_t *ret_ms);
#define DURATION_LEN 64
/* "1h30m", "0s" for zero; negative ones with '-'. Returns out. */
char *units_format_duration(int64_t ms, char out[DURATION_LEN]);
/* A number and one of B KB MB GB TB PB EB (also KiB ... ), base 1024; a bare 0 is accepted. */
bool units_parse_size(struct view v, uint64_t *ret_bytes);
/* "1.5MiB"; out holds 24 bytes. */
char *units_format_size(uint64_t bytes, char out[24]);

#endif
