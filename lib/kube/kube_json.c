/* SPDX-License-Identifier: Apache-2.0 */
/* Values of objects by path: "metadata.name". */
#include <string.h>

#include "kube/kube.h"

const json_t *kube_get(const json_t *j, const char *path)
{
	while (j && *path) {
		char key[128];
		size_t n = strcspn(path, ".");
		if (n >= sizeof key)
			return NULL;
		memcpy(key, path, n);
		key[n] = 0;
		j = json_object_get(j, key);
		path += n + (path[n] == '.');
	}
	return j;
}

const char *kube_text(const json_t *object, const char *path)
{
	const char *s = json_string_value(kube_get(object, path));
	return s ? s : "";
}
