/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/layout.h"

/* PyCodeObject up to 3.7, from 3.8 (which added posonlyargcount), from 3.11. */
#define CODE_3_6 .code_bytes = 144, .code_check = 32, .code_argcount = 16, .code_kwonly = 20, .code_flags = 32, .code_first_line = 36, \
	.code_code = 40, .code_filename = 96, .code_name = 104, .code_lines = 112
#define CODE_3_8 .code_bytes = 176, .code_check = 36, .code_argcount = 16, .code_posonly = 20, .code_kwonly = 24, .code_flags = 36, \
	.code_first_line = 40, .code_code = 48, .code_filename = 104, .code_name = 112, .code_lines = 120
#define CODE_3_11 .code_flags = 48, .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_lines = 136
#define CODE_3_12 CODE_3_11, .code_check = 64, .code_argcount = 52, .code_posonly = 56, .code_kwonly = 60, .code_first_line = 68
#define OLD_STRINGS .ascii_data = 48, .unicode_data = 72, .bytes_data = 32
#define STRINGS .ascii_data = 40, .unicode_data = 56, .bytes_data = 32
#define FRAME_3_14 .tstate_frame = 72, .frame_code = 0, .frame_back = 8, .frame_instr = 56, .frame_owner = 74
#define OLD_FRAME .tstate_frame = 24, .frame_back = 24, .frame_code = 32

static const struct python_layout layouts[PYTHON_MINOR_LAST + 1] = {
	[6] = { OLD_FRAME, .frame_instr = 120, CODE_3_6, OLD_STRINGS },
	[7] = { OLD_FRAME, .frame_instr = 104, CODE_3_6, OLD_STRINGS },
	[8] = { OLD_FRAME, .frame_instr = 104, CODE_3_8, OLD_STRINGS },
	[9] = { OLD_FRAME, .frame_instr = 104, CODE_3_8, OLD_STRINGS },
	[10] = { OLD_FRAME, .tstate_cframe = 48, .cframe_previous = 8, .frame_instr = 96, CODE_3_8, OLD_STRINGS },
	[11] = { .tstate_cframe = 56, .cframe_frame = 8, .cframe_previous = 16, .frame_code = 32, .frame_back = 48, .frame_instr = 56,
		 .frame_entry = 68, CODE_3_11, .code_bytes = 184, .code_check = 68, .code_argcount = 56, .code_posonly = 60,
		 .code_kwonly = 64, .code_first_line = 72, OLD_STRINGS },
	[12] = { .tstate_cframe = 56, .cframe_frame = 0, .cframe_previous = 8, .frame_code = 0, .frame_back = 8, .frame_instr = 56,
		 .frame_owner = 70, CODE_3_12, .code_bytes = 192, STRINGS },
	[13] = { .tstate_frame = 72, .frame_code = 0, .frame_back = 8, .frame_instr = 56, .frame_owner = 70, CODE_3_12,
		 .code_bytes = 200, STRINGS },
	[14] = { FRAME_3_14, CODE_3_12, .code_bytes = 208, .short_count = true, STRINGS },
	[15] = { FRAME_3_14, CODE_3_12, .code_bytes = 208, .short_count = true, STRINGS },
};

const struct python_layout *python_layout(unsigned minor)
{
	return minor <= PYTHON_MINOR_LAST && layouts[minor].code_bytes ? &layouts[minor] : NULL;
}
