/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a language test: series descriptions (name{a="b"} 1 2+3x4 _ stale) and profiles as folded stacks. */
#include <stdlib.h>

#include "base/num.h"
#include "base/units.h"
#include "model/lexer.h"
#include "promql-like/testlang/testlang_data.h"

static bool parse_pairs(struct arena *a, struct lexer *lex, struct token *t, struct labels_builder *b, const char **error)
{
	lex->in_brace = true;
	lexer_next(lex, t);
	while (t->kind != TOK_RBRACE) {
		struct token name = *t;
		struct view key = name.text, value;
		if (name.kind != TOK_IDENT && name.kind != TOK_STRING) {
			*error = "expected a label name";
			return false;
		}
		if (name.kind == TOK_STRING && !lexer_unquote(a, name.text, &key, error))
			return false;
		lexer_next(lex, t);
		if (t->kind == TOK_EQL) {
			lexer_next(lex, t);
			if (t->kind != TOK_STRING || !lexer_unquote(a, t->text, &value, error)) {
				*error = "expected a quoted label value";
				return false;
			}
			labels_builder_set(b, key, value);
			lexer_next(lex, t);
		} else if (name.kind == TOK_STRING) {
			labels_builder_set(b, VIEW(LABEL_NAME), key);
		} else {
			*error = "expected =";
			return false;
		}
		if (t->kind == TOK_COMMA)
			lexer_next(lex, t);
		else if (t->kind != TOK_RBRACE) {
			*error = "expected , or }";
			return false;
		}
	}
	lex->in_brace = false;
	return true;
}

bool testlang_labels(struct arena *a, struct view *line, struct labels *ret, const char **error)
{
	struct lexer lex = { .src = *line };
	struct token t;
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	lexer_next(&lex, &t);
	uint32_t end = 0;
	bool ok = true;
	if (t.kind == TOK_IDENT) {
		labels_builder_set(&b, VIEW(LABEL_NAME), t.text);
		end = t.end;
		struct lexer ahead = lex;
		lexer_next(&ahead, &t);
		if (t.kind == TOK_LBRACE && (t.end >= line->len || line->ptr[t.end] != '{')) /* {{ is a histogram */
			lex = ahead;
		else
			t.kind = TOK_EOF;
	} else if (t.kind != TOK_LBRACE) {
		*error = "expected a series";
		ok = false;
	}
	if (ok && t.kind == TOK_LBRACE) {
		ok = parse_pairs(a, &lex, &t, &b, error);
		end = t.end;
	}
	if (ok) {
		*ret = labels_copy(a, labels_builder_finish(&b));
		*line = view_make(line->ptr + end, line->len - end);
	}
	labels_builder_free(&b);
	return ok;
}

struct view testlang_trimmed(struct view v)
{
	while (v.len && strchr(" \t\r", v.ptr[0])) {
		v.ptr++;
		v.len--;
	}
	while (v.len && strchr(" \t\r", v.ptr[v.len - 1]))
		v.len--;
	return v;
}

struct view testlang_word(struct view *line)
{
	size_t i = 0, from;
	while (i < line->len && (line->ptr[i] == ' ' || line->ptr[i] == '\t'))
		i++;
	from = i;
	while (i < line->len && line->ptr[i] != ' ' && line->ptr[i] != '\t')
		i++;
	struct view w = view_make(line->ptr + from, i - from);
	*line = view_make(line->ptr + i, line->len - i);
	return w;
}

/* ---- values ---- */

#define MAX_VALUES 2000000 /* of a series; the last repetition may go beyond it */

/* Length of the number at the start of v: sign, digits, exponent, or Inf, NaN, in any case. */
static size_t number_length(struct view v)
{
	size_t i = 0;
	if (i < v.len && (v.ptr[i] == '+' || v.ptr[i] == '-'))
		i++;
	if (i + 2 < v.len + 0 && ((v.ptr[i] | 0x20) == 'i' || (v.ptr[i] | 0x20) == 'n'))
		return i + 3;
	while (i < v.len && ((v.ptr[i] >= '0' && v.ptr[i] <= '9') || v.ptr[i] == '.'))
		i++;
	if (i < v.len && (v.ptr[i] | 0x20) == 'e') {
		size_t k = i + 1;
		if (k < v.len && (v.ptr[k] == '+' || v.ptr[k] == '-'))
			k++;
		if (k < v.len && v.ptr[k] >= '0' && v.ptr[k] <= '9') {
			for (i = k; i < v.len && v.ptr[i] >= '0' && v.ptr[i] <= '9';)
				i++;
		}
	}
	return i;
}

static bool take_number(struct view *v, double *ret)
{
	size_t n = number_length(*v);
	if (!n || n > v->len || !num_parse_double(view_make(v->ptr, n), ret))
		return false;
	*v = view_make(v->ptr + n, v->len - n);
	return true;
}

static bool take_times(struct view *v, uint64_t *ret)
{
	if (!v->len)
		return true;
	bool ok = v->ptr[0] == 'x' && num_parse_u64(view_make(v->ptr + 1, v->len - 1), ret) && *ret < 1000000;
	*v = view_make(v->ptr + v->len, 0);
	return ok;
}

static bool parse_value(struct view w, struct testlang_values *out)
{
	uint64_t times = 0;
	double v, step = 0;
	if (w.ptr[0] == '_') {
		w = view_make(w.ptr + 1, w.len - 1);
		times = 1;
		if (!take_times(&w, &times))
			return false;
		for (uint64_t i = 0; i < times; i++)
			vec_push(&out->v, (struct testlang_value){ .absent = true });
		return true;
	}
	if (view_starts(w, VIEW("stale"))) {
		w = view_make(w.ptr + 5, w.len - 5);
		v = value_from_bits(VALUE_STALE_BITS);
		if (w.len && !take_times(&w, &times))
			return false;
		for (uint64_t i = 0; i <= times; i++)
			vec_push(&out->v, (struct testlang_value){ .v = v });
		return true;
	}
	if (!take_number(&w, &v))
		return false;
	if (w.len && (w.ptr[0] == '+' || w.ptr[0] == '-') && !take_number(&w, &step))
		return false;
	if (!take_times(&w, &times))
		return false;
	for (uint64_t i = 0; i <= times; i++) {
		vec_push(&out->v, (struct testlang_value){ .v = v });
		v += step;
	}
	return true;
}

bool testlang_values(struct view line, struct testlang_values *out, const char **error)
{
	out->v.n = 0;
	out->histogram = view_contains(line, VIEW("{{"));
	if (out->histogram)
		return true;
	for (struct view w = testlang_word(&line); w.len; w = testlang_word(&line)) {
		if (out->v.n >= MAX_VALUES) {
			*error = "more than 2000000 values";
			return false;
		}
		if (!parse_value(w, out)) {
			*error = "not a value, such as 1, 1+2x3, _ or stale";
			return false;
		}
	}
	return true;
}

/* ---- profiles ---- */

static uint32_t str(struct symbols *s, struct view v)
{
	return symbols_string(s, v);
}

/* NAME[@FILE[:LINE]][!BINARY]: one frame. A name 0x1f is an address without a symbol. */
static void parse_frame(struct symbols *s, struct view text, struct sym_line *line, struct view *binary, uint64_t *address)
{
	const char *bang = memrchr(text.ptr, '!', text.len);
	if (bang) {
		*binary = view_make(bang + 1, text.len - (size_t)(bang + 1 - text.ptr));
		text.len = (size_t)(bang - text.ptr);
	}
	struct view file = VIEW("");
	int64_t number = 0;
	const char *sign = memchr(text.ptr, '@', text.len);
	if (sign) {
		file = view_make(sign + 1, text.len - (size_t)(sign + 1 - text.ptr));
		text.len = (size_t)(sign - text.ptr);
		const char *colon = memrchr(file.ptr, ':', file.len);
		if (colon && num_parse_i64(view_make(colon + 1, file.len - (size_t)(colon + 1 - file.ptr)), &number))
			file.len = (size_t)(colon - file.ptr);
	}
	*line = (struct sym_line){ 0 };
	if (view_starts(text, VIEW("0x"))) {
		char copy[32] = "";
		memcpy(copy, text.ptr, MIN(text.len, sizeof copy - 1));
		*address = strtoull(copy, NULL, 16);
		return;
	}
	struct sym_function f = { .name = str(s, text), .system_name = str(s, text), .filename = str(s, file) };
	line->function = symbols_function(s, &f) + 1;
	line->line = number;
}

/* root;caller;~inlined;leaf: into locations, leaf first. */
static uint32_t parse_stack(struct symbols *s, struct view text)
{
	struct sym_line lines[256][8];
	struct view binaries[256];
	uint64_t addresses[256];
	uint32_t n_lines[256], locations[256], n = 0;
	size_t from = 0;
	for (size_t i = 0; i <= text.len && n < 256; i++) {
		if (i < text.len && text.ptr[i] != ';')
			continue;
		struct view frame = view_make(text.ptr + from, i - from);
		from = i + 1;
		bool inlined = frame.len && frame.ptr[0] == '~' && n;
		if (inlined)
			frame = view_make(frame.ptr + 1, frame.len - 1);
		if (!frame.len)
			continue;
		struct sym_line line;
		struct view binary = VIEW("");
		uint64_t address = 0;
		parse_frame(s, frame, &line, &binary, &address);
		if (inlined && n_lines[n - 1] < 8) {
			memmove(&lines[n - 1][1], &lines[n - 1][0], n_lines[n - 1] * sizeof line);
			lines[n - 1][0] = line;
			n_lines[n - 1]++;
			continue;
		}
		lines[n][0] = line;
		binaries[n] = binary;
		addresses[n] = address;
		n_lines[n++] = line.function ? 1 : 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = n - 1 - i;
		struct sym_location l = { .address = addresses[i], .n_lines = n_lines[i] };
		if (binaries[i].len) {
			struct sym_mapping m = { .size = 4096, .file = str(s, binaries[i]) };
			l.mapping = symbols_mapping(s, &m) + 1;
		}
		locations[k] = symbols_location(s, &l, lines[i]);
	}
	return symbols_stack(s, locations, n);
}

/* {thread="a", bytes=1024} after the value. */
static uint32_t parse_sample_labels(struct arena *a, struct symbols *s, struct view text)
{
	struct sym_label l[16];
	size_t n = 0;
	struct lexer lex = { .src = text };
	struct token t;
	lexer_next(&lex, &t);
	if (t.kind != TOK_LBRACE)
		return 0;
	lex.in_brace = true;
	for (lexer_next(&lex, &t); t.kind == TOK_IDENT && n < 16; lexer_next(&lex, &t)) {
		struct sym_label *x = &l[n++];
		*x = (struct sym_label){ .key = str(s, t.text) };
		lexer_next(&lex, &t); /* = */
		lexer_next(&lex, &t);
		struct view v;
		const char *error;
		if (t.kind == TOK_STRING && lexer_unquote(a, t.text, &v, &error)) {
			x->str = str(s, v);
		} else {
			x->is_num = true;
			x->num = (int64_t)t.number;
			x->unit = str(s, VIEW("bytes"));
		}
		lexer_next(&lex, &t);
		if (t.kind != TOK_COMMA)
			break;
	}
	return symbols_label_set(s, l, n);
}

/* STACK VALUE [{labels}] */
static bool parse_sample(struct arena *a, struct symbols *s, struct view text, struct stackacc *acc, const char **error)
{
	text = testlang_trimmed(text);
	const char *brace = text.len && text.ptr[text.len - 1] == '}' ? memrchr(text.ptr, '{', text.len) : NULL;
	struct view labels = VIEW(""), value;
	if (brace) {
		labels = view_make(brace, text.len - (size_t)(brace - text.ptr));
		text = testlang_trimmed(view_make(text.ptr, (size_t)(brace - text.ptr)));
	}
	const char *blank = memrchr(text.ptr, ' ', text.len);
	value = blank ? view_make(blank + 1, text.len - (size_t)(blank + 1 - text.ptr)) : text;
	struct view stack = blank ? testlang_trimmed(view_make(text.ptr, (size_t)(blank - text.ptr))) : VIEW("");
	double v;
	int64_t exact;
	if (!num_parse_double(value, &v)) {
		*error = "a sample is: root;caller;leaf VALUE [{label=\"x\"}]";
		return false;
	}
	uint32_t column = symbols_column(s, parse_stack(s, stack), labels.len ? parse_sample_labels(a, s, labels) : 0);
	if (num_parse_i64(value, &exact))
		stackacc_add(acc, column, exact);
	else
		stackacc_add_scaled(acc, column, v);
	return true;
}

struct stackvec *testlang_stacks(struct arena *a, struct symbols *s, struct view text, const char **error)
{
	struct stackacc *acc = stackacc_new(s);
	bool ok = true;
	size_t from = 0;
	text = testlang_trimmed(text);
	if (!view_eqs(text, "empty"))
		for (size_t i = 0; i <= text.len && ok; i++)
			if (i == text.len || text.ptr[i] == '|') {
				struct view one = testlang_trimmed(view_make(text.ptr + from, i - from));
				from = i + 1;
				ok = !one.len || parse_sample(a, s, one, acc, error);
			}
	struct err e = { 0 };
	struct stackvec *v = ok ? stackacc_finish(acc, &e) : NULL;
	stackacc_free(acc);
	if (ok && !v)
		*error = "a sum does not fit";
	return v;
}
