/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_fmt.h"

#include "base/utf8.h"
#include "rules/template/template_quote.h"
#include "rules/template/template_unicode.h"

#define TOO_LARGE 1000000 /* of widths and precisions */

struct formatting {
	struct gofmt f;
	struct buf *out;
	bool erroring; /* what is printed is part of an error: methods are not called */
};

static void print_arg(struct formatting *p, const struct tvalue *v, uint32_t verb);
static void print_value(struct formatting *p, const struct tvalue *v, uint32_t verb, bool top);

static void put_rune(uint32_t r, struct buf *out)
{
	char text[4];
	if (r > RUNE_MAX || (r >= 0xd800 && r < 0xe000))
		r = RUNE_BAD;
	buf_put(out, text, utf8_encode(r, text));
}

static bool is_nothing(const struct tvalue *v)
{
	return v->type == TTYPE_INVALID || v->type == TTYPE_NIL;
}

static void bad_verb(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	p->erroring = true;
	buf_puts(p->out, "%!");
	put_rune(verb, p->out);
	buf_putc(p->out, '(');
	if (is_nothing(v)) {
		buf_puts(p->out, "<nil>");
	} else {
		buf_puts(p->out, ttype_name(v->type));
		buf_putc(p->out, '=');
		print_value(p, v, 'v', true);
	}
	buf_putc(p->out, ')');
	p->erroring = false;
}

/* ---- strings and numbers ---- */

/* At most this many characters. */
static struct view truncated(const struct gofmt *f, struct view s)
{
	uint32_t r;
	size_t i = 0;
	if (!f->has_precision)
		return s;
	for (int n = f->precision; n > 0 && i < s.len; n--)
		i += rune_decode(s.ptr + i, s.len - i, &r);
	return view_make(s.ptr, i);
}

static void print_quoted(struct formatting *p, struct view s)
{
	struct buf b = { .max = p->out->max };
	s = truncated(&p->f, s);
	if (p->f.sharp && go_can_backquote(s)) {
		buf_putc(&b, '`');
		buf_putv(&b, s);
		buf_putc(&b, '`');
	} else {
		go_quote(s, '"', p->f.plus, &b);
	}
	go_pad(&p->f, buf_view(&b), p->out);
	p->out->overflow |= b.overflow;
	buf_free(&b);
}

static void print_hex(struct formatting *p, struct view s, bool upper)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef", *prefix = upper ? "0X" : "0x";
	const struct gofmt *f = &p->f;
	size_t n = f->has_precision ? MIN((size_t)f->precision, s.len) : s.len, width = 2 * n;
	if (!n) {
		go_pad_zeros(f, f->has_width ? f->width : 0, p->out);
		return;
	}
	if (f->space)
		width = width * (f->sharp ? 2 : 1) + n - 1;
	else if (f->sharp)
		width += 2;
	int pad = f->has_width && (size_t)f->width > width ? f->width - (int)width : 0;
	if (!f->minus)
		go_pad_zeros(f, pad, p->out);
	for (size_t i = 0; i < n && !p->out->overflow; i++) {
		if (f->space && i)
			buf_putc(p->out, ' ');
		if (f->sharp && (f->space || !i))
			buf_puts(p->out, prefix);
		buf_putc(p->out, digits[(unsigned char)s.ptr[i] >> 4]);
		buf_putc(p->out, digits[(unsigned char)s.ptr[i] & 15]);
	}
	if (f->minus)
		go_pad_zeros(f, pad, p->out);
}

/* False: no verb of strings. */
static bool print_string(struct formatting *p, struct view s, uint32_t verb)
{
	switch (verb) {
	case 'v':
	case 's':
		if (verb == 'v' && p->f.sharp_v)
			print_quoted(p, s);
		else
			go_pad(&p->f, truncated(&p->f, s), p->out);
		return true;
	case 'x':
	case 'X':
		print_hex(p, s, verb == 'X');
		return true;
	case 'q':
		print_quoted(p, s);
		return true;
	default:
		return false;
	}
}

static bool print_float(struct formatting *p, double v, uint32_t verb)
{
	if (verb == 'v')
		go_format_float(&p->f, v, 'g', -1, p->out);
	else if (verb == 'b' || verb == 'g' || verb == 'G' || verb == 'x' || verb == 'X')
		go_format_float(&p->f, v, (char)verb, -1, p->out);
	else if (verb == 'f' || verb == 'F' || verb == 'e' || verb == 'E')
		go_format_float(&p->f, v, verb == 'F' ? 'f' : (char)verb, 6, p->out);
	else
		return false;
	return true;
}

static void print_char(struct formatting *p, uint64_t u, bool quoted)
{
	struct buf b = { .max = 64 };
	uint32_t r = u > RUNE_MAX ? RUNE_BAD : (uint32_t)u;
	if (quoted)
		go_quote_rune(r, p->f.plus, &b);
	else
		put_rune(r, &b);
	go_pad(&p->f, buf_view(&b), p->out);
	buf_free(&b);
}

static bool print_integer(struct formatting *p, uint64_t u, bool is_signed, uint32_t verb)
{
	struct gofmt hex = p->f;
	switch (verb) {
	case 'v':
		hex.sharp = true;
		if (p->f.sharp_v && !is_signed)
			go_format_integer(&hex, u, 16, false, 'v', false, p->out);
		else
			go_format_integer(&p->f, u, 10, is_signed, 'v', false, p->out);
		return true;
	case 'd':
		go_format_integer(&p->f, u, 10, is_signed, 'd', false, p->out);
		return true;
	case 'b':
		go_format_integer(&p->f, u, 2, is_signed, 'b', false, p->out);
		return true;
	case 'o':
	case 'O':
		go_format_integer(&p->f, u, 8, is_signed, (char)verb, false, p->out);
		return true;
	case 'x':
	case 'X':
		go_format_integer(&p->f, u, 16, is_signed, (char)verb, verb == 'X', p->out);
		return true;
	case 'c':
	case 'q':
		print_char(p, u, verb == 'q');
		return true;
	case 'U':
		go_format_unicode(&p->f, u, p->out);
		return true;
	default:
		return false;
	}
}

static bool print_bool(struct formatting *p, bool b, uint32_t verb)
{
	if (verb != 't' && verb != 'v')
		return false;
	go_pad(&p->f, b ? VIEW("true") : VIEW("false"), p->out);
	return true;
}

/* ---- compound values ---- */

/* Addresses have no meaning in an alert and differ from run to run in Go: ours is always the same. */
static void print_address(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	uint64_t u = tvalue_is_nil(v) ? 0 : 0xc000000000;
	struct gofmt f = p->f;
	if (verb == 'v' && p->f.sharp_v) {
		buf_printf(p->out, "(%s)(", ttype_name(v->type));
		buf_puts(p->out, u ? "0xc000000000)" : "nil)");
	} else if (verb == 'v' && !u) {
		go_pad(&p->f, VIEW("<nil>"), p->out);
	} else if (verb == 'v' || verb == 'p') {
		f.sharp = !p->f.sharp;
		go_format_integer(&f, u, 16, false, 'v', false, p->out);
	} else if (!memchr("bodxX", (int)verb, 5) || !print_integer(p, u, false, verb)) {
		bad_verb(p, v, verb);
	}
}

static void separate(struct formatting *p, bool first)
{
	if (!first)
		buf_puts(p->out, p->f.sharp_v ? ", " : " ");
}

static void print_field(struct formatting *p, const char *name, const struct tvalue *v, uint32_t verb, bool first)
{
	separate(p, first);
	if (p->f.plus_v || p->f.sharp_v)
		buf_printf(p->out, "%s:", name);
	print_value(p, v, verb, false);
}

static void open_brace(struct formatting *p, const char *type)
{
	if (p->f.sharp_v)
		buf_puts(p->out, type);
	buf_putc(p->out, '{');
}

static void print_labels(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	size_t n = v->type == TTYPE_LABELS ? v->labels.n : v->args->n;
	buf_puts(p->out, p->f.sharp_v ? ttype_name(v->type) : "map[");
	if (p->f.sharp_v)
		buf_putc(p->out, '{');
	for (size_t i = 0; i < n && !p->out->overflow; i++) {
		struct tvalue key = TSTRING(v->type == TTYPE_LABELS ? v->labels.v[i].name : v->args->v[i].key);
		struct tvalue value = v->type == TTYPE_LABELS ? TSTRING(v->labels.v[i].value) : v->args->v[i].value;
		separate(p, !i);
		print_value(p, &key, verb, false);
		buf_putc(p->out, ':');
		print_value(p, &value, verb, false);
	}
	buf_putc(p->out, p->f.sharp_v ? '}' : ']');
}

static void print_vector(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	if (p->f.sharp_v) {
		buf_puts(p->out, ttype_name(v->type));
		if (!v->vector.v) {
			buf_puts(p->out, "(nil)");
			return;
		}
	}
	buf_putc(p->out, p->f.sharp_v ? '{' : '[');
	for (size_t i = 0; i < v->vector.n && !p->out->overflow; i++) {
		struct tvalue s = { .type = TTYPE_SAMPLE, .sample = v->vector.v[i] };
		separate(p, !i);
		print_value(p, &s, verb, false);
	}
	buf_putc(p->out, p->f.sharp_v ? '}' : ']');
}

static void print_struct(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	open_brace(p, ttype_name(v->type));
	if (v->type == TTYPE_SAMPLE_IN) {
		print_field(p, "Labels", &(struct tvalue){ .type = TTYPE_LABELS, .labels = v->sample->labels }, verb, true);
		print_field(p, "Value", &TFLOAT(v->sample->value), verb, false);
	} else if (v->type == TTYPE_TIME) { /* the underlying value: for verbs that do not call its String */
		const int64_t before_1970 = INT64_C(62135596800);
		print_field(p, "wall", &(struct tvalue){ .type = TTYPE_UINT64, .i = v->time.ns }, verb, true);
		print_field(p, "ext", &(struct tvalue){ .type = TTYPE_INT64, .i = v->time.s + before_1970 }, verb, false);
		print_field(p, "loc", &(struct tvalue){ .type = TTYPE_LOCATION }, verb, false);
	} else {
		for (size_t i = 0; i < TDATA_FIELDS; i++)
			print_field(p, v->fields[i].name, &v->fields[i].value, verb, !i);
	}
	buf_putc(p->out, '}');
}

/* ---- any value ---- */

/* For types with a String method: its text. False: they have none. */
static bool string_of(const struct tvalue *v, struct buf *out)
{
	struct tvalue to = tvalue_pointed(v);
	const char *name;
	switch (to.type) {
	case TTYPE_TIME:
		ttime_format(to.time, TTIME_STRING, out);
		return true;
	case TTYPE_DURATION:
		tduration_format(to.i, out);
		return true;
	case TTYPE_MONTH:
		name = tmonth_name((int)MIN(MAX(to.i, (int64_t)-1), (int64_t)100));
		break;
	case TTYPE_WEEKDAY:
		name = tweekday_name((int)MIN(MAX(to.i, (int64_t)-1), (int64_t)100));
		break;
	default:
		return false;
	}
	if (name)
		buf_puts(out, name);
	else
		buf_printf(out, "%%!%s(%lld)", to.type == TTYPE_MONTH ? "Month" : "Weekday", (long long)to.i);
	return true;
}

static void go_syntax_of_time(struct ttime t, struct buf *out)
{
	struct tdate d = ttime_date(t);
	buf_printf(out, "time.Date(%lld, time.%s, %d, %d, %d, %d, %d, time.UTC)", (long long)d.year, tmonth_name(d.month), d.day, d.hour,
		   d.minute, d.second, t.ns);
}

/* Values that print themselves; false: this one does not, or not for this verb. */
static bool print_by_method(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	struct tvalue to = tvalue_pointed(v);
	struct buf b = { .max = 256 };
	bool simple = v->type <= TTYPE_STRING;
	if (p->erroring || simple)
		return false;
	if (verb == 'w') {
		bad_verb(p, v, verb);
		return true;
	}
	bool done = false;
	if (p->f.sharp_v && to.type == TTYPE_TIME) {
		go_syntax_of_time(to.time, &b);
		go_pad(&p->f, truncated(&p->f, buf_view(&b)), p->out);
		done = true;
	} else if (!p->f.sharp_v && verb < 0x80 && verb && strchr("vsxXq", (int)verb) && string_of(v, &b)) {
		done = print_string(p, buf_view(&b), verb);
	}
	buf_free(&b);
	return done;
}

static void print_pointer(struct formatting *p, const struct tvalue *v, uint32_t verb, bool top)
{
	struct tvalue to = tvalue_pointed(v);
	if (!top || to.type == v->type || tvalue_kind(&to) != TKIND_STRUCT) {
		print_address(p, v, verb);
		return;
	}
	buf_putc(p->out, '&');
	print_value(p, &to, verb, false);
}

/* top: not within another value. */
static void print_value(struct formatting *p, const struct tvalue *v, uint32_t verb, bool top)
{
	bool ok = true;
	if (!top && print_by_method(p, v, verb))
		return;
	switch (tvalue_kind(v)) {
	case TKIND_BOOL:
		ok = print_bool(p, v->b, verb);
		break;
	case TKIND_INT:
		ok = print_integer(p, (uint64_t)v->i, true, verb);
		break;
	case TKIND_UINT:
		ok = print_integer(p, (uint64_t)v->i, false, verb);
		break;
	case TKIND_FLOAT:
		ok = print_float(p, v->f, verb);
		break;
	case TKIND_STRING:
		ok = print_string(p, v->s, verb);
		break;
	case TKIND_MAP:
		print_labels(p, v, verb);
		break;
	case TKIND_SLICE:
		print_vector(p, v, verb);
		break;
	case TKIND_POINTER:
		print_pointer(p, v, verb, top);
		break;
	case TKIND_STRUCT:
		print_struct(p, v, verb);
		break;
	default:
		buf_puts(p->out, p->f.sharp_v ? "interface {}(nil)" : "<nil>");
	}
	if (!ok)
		bad_verb(p, v, verb);
}

static void print_arg(struct formatting *p, const struct tvalue *v, uint32_t verb)
{
	if (is_nothing(v)) {
		if (verb == 'T' || verb == 'v')
			go_pad(&p->f, VIEW("<nil>"), p->out);
		else
			bad_verb(p, v, verb);
	} else if (verb == 'T') {
		go_pad(&p->f, truncated(&p->f, view_of(ttype_name(v->type))), p->out);
	} else if (verb == 'p') {
		enum tkind k = tvalue_kind(v);
		if (k == TKIND_MAP || k == TKIND_SLICE || k == TKIND_POINTER)
			print_address(p, v, verb);
		else
			bad_verb(p, v, verb);
	} else if (!print_by_method(p, v, verb)) {
		print_value(p, v, verb, true);
	}
}

void go_sprint(const struct tvalue *args, size_t n, struct buf *out)
{
	struct formatting p = { .out = out };
	bool string = true;
	for (size_t i = 0; i < n; i++) {
		bool is_string = tvalue_kind(&args[i]) == TKIND_STRING;
		if (i && !is_string && !string)
			buf_putc(out, ' ');
		print_arg(&p, &args[i], 'v');
		string = is_string;
	}
}

void go_sprintln(const struct tvalue *args, size_t n, struct buf *out)
{
	struct formatting p = { .out = out };
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ' ');
		print_arg(&p, &args[i], 'v');
	}
	buf_putc(out, '\n');
}

static struct tvalue printable(const struct tvalue *v)
{
	return v->type == TTYPE_INVALID ? TSTRING(VIEW("<no value>")) : tvalue_pointed(v);
}

void go_print_value(const struct tvalue *v, struct buf *out)
{
	struct tvalue to = printable(v);
	go_sprint(&to, 1, out);
}

void go_sprint_values(const struct tvalue *args, size_t n, struct buf *out)
{
	struct formatting p = { .out = out };
	bool string = true;
	for (size_t i = 0; i < n; i++) {
		struct tvalue v = args[i].type == TTYPE_NIL ? TSTRING(VIEW("<no value>")) : printable(&args[i]);
		bool is_string = tvalue_kind(&v) == TKIND_STRING;
		if (i && !is_string && !string)
			buf_putc(out, ' ');
		print_arg(&p, &v, 'v');
		string = is_string;
	}
}

/* ---- formats ---- */

struct format {
	struct formatting p;
	struct view text;
	size_t at;
	const struct tvalue *args;
	size_t n_args, arg;
	bool reordered, good, after_index;
};

static char here(const struct format *s)
{
	return s->at < s->text.len ? s->text.ptr[s->at] : 0;
}

static bool parse_number(struct view v, size_t *at, int *ret)
{
	bool any = false;
	int n = 0;
	for (; *at < v.len && v.ptr[*at] >= '0' && v.ptr[*at] <= '9'; ++*at) {
		if (n > TOO_LARGE) {
			*at = v.len;
			*ret = 0;
			return false;
		}
		n = n * 10 + (v.ptr[*at] - '0');
		any = true;
	}
	*ret = n;
	return any;
}

/* "[3]": which argument is next. */
static void arg_number(struct format *s)
{
	int n;
	if (here(s) != '[') {
		s->after_index = false;
		return;
	}
	s->reordered = true;
	struct view rest = view_make(s->text.ptr + s->at, s->text.len - s->at);
	const char *end = rest.len < 3 ? NULL : memchr(rest.ptr, ']', rest.len);
	if (!end) {
		s->at++;
		s->good = s->after_index = false;
		return;
	}
	size_t len = (size_t)(end - rest.ptr), at = 1;
	bool ok = parse_number(view_make(rest.ptr, len), &at, &n) && at == len;
	s->at += len + 1;
	s->after_index = ok;
	if (ok && n >= 1 && (size_t)n <= s->n_args)
		s->arg = (size_t)n - 1;
	else
		s->good = false;
}

/* The argument that "*" takes. */
static bool star(struct format *s, int *ret)
{
	*ret = 0;
	if (s->arg >= s->n_args)
		return false;
	const struct tvalue *v = &s->args[s->arg++];
	enum tkind k = tvalue_kind(v);
	if ((k != TKIND_INT && k != TKIND_UINT) || v->i > TOO_LARGE || v->i < -TOO_LARGE)
		return false;
	*ret = (int)v->i;
	return true;
}

static void width(struct format *s)
{
	struct gofmt *f = &s->p.f;
	if (here(s) != '*') {
		f->has_width = parse_number(s->text, &s->at, &f->width);
		s->good &= !(s->after_index && f->has_width);
		return;
	}
	s->at++;
	f->has_width = star(s, &f->width);
	if (!f->has_width)
		buf_puts(s->p.out, "%!(BADWIDTH)");
	if (f->width < 0) {
		f->width = -f->width;
		f->minus = true;
		f->zero = false;
	}
	s->after_index = false;
}

static void precision(struct format *s)
{
	struct gofmt *f = &s->p.f;
	if (s->at + 1 >= s->text.len || here(s) != '.')
		return;
	s->at++;
	s->good &= !s->after_index;
	arg_number(s);
	if (here(s) != '*') {
		if (!parse_number(s->text, &s->at, &f->precision))
			f->precision = 0;
		f->has_precision = true;
		return;
	}
	s->at++;
	f->has_precision = star(s, &f->precision);
	if (f->precision < 0) {
		f->precision = 0;
		f->has_precision = false;
	}
	if (!f->has_precision)
		buf_puts(s->p.out, "%!(BADPREC)");
	s->after_index = false;
}

static void flags(struct format *s)
{
	struct gofmt *f = &s->p.f;
	*f = (struct gofmt){ 0 };
	for (;; s->at++)
		switch (here(s)) {
		case '#':
			f->sharp = true;
			break;
		case '0':
			f->zero = true;
			break;
		case '+':
			f->plus = true;
			break;
		case '-':
			f->minus = true;
			break;
		case ' ':
			f->space = true;
			break;
		default:
			return;
		}
}

static void put_problem(struct format *s, uint32_t verb, const char *what)
{
	buf_puts(s->p.out, "%!");
	put_rune(verb, s->p.out);
	buf_puts(s->p.out, what);
}

/* The verb behind flags, width and precision. False: the format ends before it. */
static bool verb(struct format *s)
{
	struct gofmt *f = &s->p.f;
	uint32_t c;
	if (s->at >= s->text.len) {
		buf_puts(s->p.out, "%!(NOVERB)");
		return false;
	}
	s->at += rune_decode(s->text.ptr + s->at, s->text.len - s->at, &c);
	if (c == '%') {
		buf_putc(s->p.out, '%');
	} else if (!s->good) {
		put_problem(s, c, "(BADINDEX)");
	} else if (s->arg >= s->n_args) {
		put_problem(s, c, "(MISSING)");
	} else {
		if (c == 'v' || c == 'w') {
			f->sharp_v = f->sharp;
			f->plus_v = f->plus;
			f->sharp = f->plus = false;
		}
		print_arg(&s->p, &s->args[s->arg++], c);
	}
	return true;
}

static void extra(struct format *s)
{
	s->p.f = (struct gofmt){ 0 };
	buf_puts(s->p.out, "%!(EXTRA ");
	for (size_t i = s->arg; i < s->n_args; i++) {
		if (i > s->arg)
			buf_puts(s->p.out, ", ");
		if (is_nothing(&s->args[i])) {
			buf_puts(s->p.out, "<nil>");
			continue;
		}
		buf_puts(s->p.out, ttype_name(s->args[i].type));
		buf_putc(s->p.out, '=');
		print_arg(&s->p, &s->args[i], 'v');
	}
	buf_putc(s->p.out, ')');
}

void go_sprintf(struct view format, const struct tvalue *args, size_t n, struct buf *out)
{
	struct format s = { .p = { .out = out }, .text = format, .args = args, .n_args = n };
	while (s.at < format.len && !out->overflow) {
		const char *next = memchr(format.ptr + s.at, '%', format.len - s.at);
		size_t end = next ? (size_t)(next - format.ptr) : format.len;
		buf_put(out, format.ptr + s.at, end - s.at);
		s.at = end + 1;
		s.good = true;
		if (!next)
			break;
		flags(&s);
		arg_number(&s);
		width(&s);
		precision(&s);
		if (!s.after_index)
			arg_number(&s);
		if (!verb(&s))
			break;
	}
	if (!s.reordered && s.arg < n)
		extra(&s);
}
