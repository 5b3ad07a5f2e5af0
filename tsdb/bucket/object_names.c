/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucket/object_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EPOCH_DIGITS 6
#define SERIAL_DIGITS 10
#define DAY_DIGITS 8

static bool id_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool server_id_is_valid(struct view id)
{
	if (!id.len || id.len > SERVER_ID_MAX || !id_char(id.ptr[0]))
		return false;
	for (size_t i = 0; i < id.len; i++)
		if (!id_char(id.ptr[i]) && id.ptr[i] != '-')
			return false;
	return true;
}

void object_name_epoch(char ret[OBJECT_NAME_MAX], const char *id, uint64_t epoch)
{
	snprintf(ret, OBJECT_NAME_MAX, "%.40s/e/%06" PRIx64, id, epoch);
}

void object_name_generation(char ret[OBJECT_NAME_MAX], const char *id, struct object_stamp s)
{
	snprintf(ret, OBJECT_NAME_MAX, "%.40s/g/%06" PRIx64 "-%010" PRIx64, id, s.epoch, s.serial);
}

void object_name_data(char ret[OBJECT_NAME_MAX], const char *id, uint32_t day, struct object_stamp s)
{
	snprintf(ret, OBJECT_NAME_MAX, "%.40s/d/%08u/%06" PRIx64 "-%010" PRIx64, id, day, s.epoch, s.serial);
}

void object_name_delete(char ret[OBJECT_NAME_MAX], const char *id, struct object_stamp s)
{
	snprintf(ret, OBJECT_NAME_MAX, "%.40s/x/%06" PRIx64 "-%010" PRIx64, id, s.epoch, s.serial);
}

void object_name_prefix(char ret[OBJECT_NAME_MAX], const char *id, char kind)
{
	snprintf(ret, OBJECT_NAME_MAX, "%.40s/%c/", id, kind);
}

/* A number of exactly so many digits. */
static bool name_number(const char **p, int digits, int base, uint64_t *ret)
{
	*ret = 0;
	for (int i = 0; i < digits; i++, (*p)++) {
		char c = **p;
		int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
		if (d >= base)
			return false;
		*ret = *ret * (uint64_t)base + (uint64_t)d;
	}
	return true;
}

static bool name_stamp(const char **p, struct object_stamp *ret)
{
	return name_number(p, EPOCH_DIGITS, 16, &ret->epoch) && *(*p)++ == '-' && name_number(p, SERIAL_DIGITS, 16, &ret->serial);
}

bool object_name_parse(const char *name, struct object_name *ret)
{
	const char *slash = strchr(name, '/'), *p;
	uint64_t day = 0;
	*ret = (struct object_name){ .kind = 0 };
	if (!slash || !server_id_is_valid(view_make(name, (size_t)(slash - name))) || !slash[1] || slash[2] != '/')
		return false;
	memcpy(ret->id, name, (size_t)(slash - name));
	ret->kind = slash[1];
	p = slash + 3;
	bool ok = false;
	if (ret->kind == 'e')
		ok = name_number(&p, EPOCH_DIGITS, 16, &ret->stamp.epoch);
	else if (ret->kind == 'g' || ret->kind == 'x')
		ok = name_stamp(&p, &ret->stamp);
	else if (ret->kind == 'd')
		ok = name_number(&p, DAY_DIGITS, 10, &day) && *p++ == '/' && name_stamp(&p, &ret->stamp);
	ret->day = (uint32_t)day;
	return ok && !*p;
}
