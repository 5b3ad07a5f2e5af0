/* SPDX-License-Identifier: Apache-2.0 */
/* The XML of S3's and STS's answers, from a server that may be hostile: no document type and so no entities, bounded depth and text. */
#ifndef PYRRHA_BUCKET_S3_XML_H
#define PYRRHA_BUCKET_S3_XML_H

#include "base/err.h"
#include "base/view.h"

#define S3_XML_MAX ((uint64_t)4 << 20) /* bytes of an answer; whoever fetches it holds to this */
#define S3_XML_DEPTH 12
#define S3_XML_TEXT 8192

/* Calls end for each element when it ends, those within it first: path is the names from the root on ("Error/Code"), text what stood in it
 * outside of other elements. An error of end ends it and is returned. ERR_BAD_DATA: it is not XML, or passes a limit. */
int s3_xml_each(struct view doc, int (*end)(void *arg, const char *path, struct view text, struct err *e), void *arg, struct err *e) MUST_USE;

#endif
