/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/python.h"

#include "agent/python/layout.h"

const struct runtime python_runtime = {
	.kind = RUNTIME_PYTHON,
	.name = "python",
	.mapping = "[python]",
	.recognise = python_recognise,
	.free_file = python_free_file,
	.attach = python_attach,
};
