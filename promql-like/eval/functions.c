/* SPDX-License-Identifier: Apache-2.0 */
/* The code of the functions. */
#include "promql-like/eval/funcs.h"

#define ROW(name, args, ret, form, code, flags, signature, doc) { code },
const union func_code func_codes[] = {
#include "promql-like/syntax/func_rows.h"
};
#undef ROW
