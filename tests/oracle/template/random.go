// SPDX-License-Identifier: Apache-2.0

// Templates made up from a grammar: mostly of fitting types, now and then not. Values whose print is an address are only
// counted, sorted and iterated over.
package main

import (
	"fmt"
	"math"
	"math/rand"
	"strconv"
	"strings"
)

type maker struct {
	*rand.Rand
	vars  []variable
	defs  int
	loops int
	head  strings.Builder // definitions
}

type variable struct{ name, kind string }

func (m *maker) pick(of ...string) string { return of[m.Intn(len(of))] }

func (m *maker) some(p float64) bool { return m.Float64() < p }

func (m *maker) text() string {
	return m.pick("", " ", "a", "\n", " \t ", "-", "}", "{ x }", "5%", "é日", "\xff", "text & <b>", "  \n  x", "\"", "$x", "\\")
}

func (m *maker) number() string {
	switch m.Intn(9) {
	case 0:
		return strconv.Itoa(m.Intn(2000) - 1000)
	case 1:
		return strconv.FormatFloat(m.NormFloat64()*math.Pow(10, float64(m.Intn(40)-20)), 'g', 1+m.Intn(17), 64)
	case 2:
		return m.pick("0x1F", "0b101", "0o17", "017", "1_000", "0x1p4", "1e3", "-0", "-0.0", "9223372036854775807", "1e21", "1e20",
			"123456789.0", "1e-5", "0.0001", "100000.0", "1000000.0", "5e-324", "1.7976931348623157e308", "'a'", "'\\n'", "'\\u00e9'", ".5", "1.", "0x_1", "+7")
	case 3:
		return m.pick("1", "0", "2", "3")
	case 4:
		return strconv.FormatFloat(math.Float64frombits(m.Uint64()&^(0x7ff<<52)|uint64(1+m.Intn(2045))<<52), 'g', -1, 64)
	case 5:
		return strconv.FormatFloat(math.Ldexp(1, m.Intn(200)-100), 'g', -1, 64)
	default:
		return fmt.Sprintf("%.*f", m.Intn(4), m.Float64()*math.Pow(10, float64(m.Intn(7))))
	}
}

func (m *maker) variable(kind string) (string, bool) {
	var fit []string
	for _, v := range m.vars {
		if v.kind == kind {
			fit = append(fit, v.name)
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	return fit[m.Intn(len(fit))], true
}

// An operand: in parentheses unless it is a word.
func (m *maker) arg(kind string, depth int) string {
	if m.some(0.03) {
		kind = m.pick("num", "str", "bool", "map", "sample", "time", "dur", "nil")
	}
	s := m.expr(kind, depth)
	if strings.ContainsAny(s, " |") && s[0] != '"' && s[0] != '`' || strings.HasPrefix(s, "\"") && strings.Contains(s, "\" ") {
		return "(" + s + ")"
	}
	return s
}

func (m *maker) format() string {
	var b strings.Builder
	for n := 1 + m.Intn(3); n > 0; n-- {
		b.WriteString(m.pick("", " ", "x", "%%", "é"))
		b.WriteByte('%')
		for m.some(0.25) {
			b.WriteString(m.pick("+", "-", "#", "0", " "))
		}
		if m.some(0.05) {
			b.WriteString(m.pick("[1]", "[2]", "[9]", "[x]", "["))
		}
		if m.some(0.3) {
			b.WriteString(m.pick("1", "5", "12", "*", "30", "3"))
		}
		if m.some(0.3) {
			b.WriteString("." + m.pick("", "0", "1", "2", "3", "10", "*"))
		}
		b.WriteString(m.pick("d", "s", "v", "q", "x", "X", "e", "E", "f", "g", "G", "t", "T", "v", "f", "s", "d", "c", "U", "b", "o", "O", "F", "z", "w", "!", ""))
	}
	return b.String()
}

func (m *maker) str(depth int) string {
	if depth <= 0 || m.some(0.3) {
		if v, ok := m.variable("str"); ok && m.some(0.3) {
			return v
		}
		return m.pick(`"abc"`, "`raw \\ x`", `"a\tb\"c\u00e9\x41"`, `""`, `"12.5"`, `"1e3"`, `"foo-bar_baz.qux it's"`, `"ŽLUŤ ß"`, `"host.example.com:8080"`,
			`"[::1]:80"`, `"::1"`, `"10.1.2.3"`, `"a:b:c"`, "$labels.job", "$labels.instance", ".Labels.html", "$labels.uni", "$labels.missing", "$.Labels.path",
			"$externalLabels.cluster", "$externalURL", "$labels.n", "$labels.ip", "$labels.bad", "$labels.multi")
	}
	d := depth - 1
	switch m.Intn(22) {
	case 0:
		return fmt.Sprintf("%s %s", m.pick("toUpper", "toLower", "title", "stripPort", "stripDomain", "urlQueryEscape"), m.arg("str", d))
	case 1:
		return fmt.Sprintf("%s %s", m.pick("humanize", "humanize1024", "humanizeDuration", "humanizePercentage", "humanizeTimestamp"), m.arg(m.pick("num", "num", "num", "str", "dur"), d))
	case 2, 3, 4, 5:
		s := "printf " + strconv.Quote(m.format())
		for n := m.Intn(4); n > 0; n-- {
			s += " " + m.arg(m.pick("num", "num", "str", "bool", "map", "sample", "time", "duration", "month", "html", "byte"), d)
		}
		return s
	case 6:
		return fmt.Sprintf("%s %s %s", m.pick("print", "println", "html", "js", "urlquery"), m.any(d), m.any(d))
	case 7:
		return fmt.Sprintf("%s %s", m.pick("print", "println", "html", "js", "urlquery"), m.any(d))
	case 8:
		return fmt.Sprintf("reReplaceAll %s %s %s", m.pick(`"a"`, `"(.)b"`, `"[a-z]+"`, `""`, `"(?i)x*"`, `"^(.*?)[:.-](.*)$"`, `"\\d+|o"`, `"é?"`), m.pick(`"<$1>"`, `"$0$0"`, `"${1}x"`, `""`, `"$$"`, `"-"`, `"$2$1"`), m.arg("str", d))
	case 9:
		return fmt.Sprintf("label %s %s", m.pick(`"instance"`, `"job"`, `"none"`), m.arg("sample", d))
	case 10:
		return "strvalue " + m.arg("sample", d)
	case 11:
		return fmt.Sprintf("index %s %s", m.arg("map", d), m.pick(`"job"`, `"instance"`, `"none"`, m.arg("str", d)))
	case 12:
		return fmt.Sprintf("slice %s %s", m.arg("str", d), m.pick("0", "1", "1 2", "0 3", "2 1", "9", ""))
	case 13:
		return fmt.Sprintf("%s.Format %s", m.arg("time", d), m.pick(`"2006-01-02"`, `"Mon Jan _2 15:04:05 2006"`, `"3:04PM .000 ,999 Z07:00 -0700 MST"`, `"002 __2 _2006 06 January 1 Monday pm"`))
	case 14:
		return fmt.Sprintf("%s | %s", m.expr("str", d), m.pick("toUpper", "toLower", "title", "html", "js", "urlquery", "len", `printf "%q"`, `printf "%10s|"`, "stripPort", "print 1"))
	case 15:
		return m.pick("externalURL", "pathPrefix")
	case 16:
		return fmt.Sprintf("or %s %s", m.arg("str", d), m.arg("str", d))
	case 17:
		return m.arg("time", d) + ".String"
	case 18:
		return fmt.Sprintf("(args %s %s).arg%d", m.plain(d), m.plain(d), m.Intn(3))
	case 19:
		return fmt.Sprintf("%s.Labels.%s", m.arg("sample", d), m.pick("job", "instance", "x"))
	default:
		return m.str(0)
	}
}

func (m *maker) any(depth int) string {
	return m.arg(m.pick("num", "str", "bool", "map", "sample", "time", "month", "duration", "html", "byte", "nil", "data"), depth)
}

// No pointers, whose address would be printed within a map.
func (m *maker) plain(depth int) string {
	return m.arg(m.pick("num", "str", "bool", "map", "month", "duration", "html", "byte", "nil"), depth)
}

func (m *maker) num(depth int) string {
	if depth <= 0 || m.some(0.4) {
		if v, ok := m.variable("num"); ok && m.some(0.4) {
			return v
		}
		return m.pick("$value", ".Value", m.number(), m.number(), m.number(), "now")
	}
	d := depth - 1
	switch m.Intn(9) {
	case 0:
		return "len " + m.arg(m.pick("str", "vec", "map"), d)
	case 1:
		return "value " + m.arg("sample", d)
	case 2:
		return "parseDuration " + m.pick(`"5m"`, `"1h30m"`, `"-1d"`, `"x"`, `"0"`, `"1y2w3d4h5m6s7ms"`, m.arg("str", d))
	case 3:
		return m.arg("time", d) + m.pick(".Unix", ".Year", ".Day", ".Hour", ".YearDay", ".UnixMilli", ".Minute", ".Nanosecond")
	case 4:
		return m.arg("dur", d) + m.pick(".Seconds", ".Minutes", ".Hours", ".Milliseconds", ".Nanoseconds")
	case 5:
		return m.arg("sample", d) + ".Value"
	case 6:
		return fmt.Sprintf("%s %s %s", m.pick("and", "or"), m.arg("num", d), m.arg("num", d))
	default:
		return m.num(0)
	}
}

func (m *maker) boolean(depth int) string {
	if depth <= 0 || m.some(0.2) {
		return m.pick("true", "false")
	}
	d := depth - 1
	switch m.Intn(8) {
	case 0, 1:
		k := m.pick("num", "str", "num")
		return fmt.Sprintf("%s %s %s", m.pick("eq", "ne", "lt", "le", "gt", "ge"), m.arg(k, d), m.arg(k, d))
	case 2:
		return fmt.Sprintf("eq %s %s %s", m.any(d), m.any(d), m.any(d))
	case 3:
		return "not " + m.any(d)
	case 4:
		return fmt.Sprintf("%s %s %s", m.pick("and", "or"), m.arg("bool", d), m.arg("bool", d))
	case 5:
		return fmt.Sprintf("match %s %s", m.pick(`"^a"`, `"[0-9]"`, `"("`, `"(?i)B.$"`, `".*"`), m.arg("str", d))
	case 6:
		return fmt.Sprintf("%s.%s %s", m.arg("time", d), m.pick("Before", "After", "Equal"), m.arg("time", d))
	default:
		return fmt.Sprintf("%s %s %s", m.pick("eq", "lt"), m.any(d), m.any(d))
	}
}

func (m *maker) expr(kind string, depth int) string {
	d := depth - 1
	if kind != "str" && kind != "num" {
		if v, ok := m.variable(kind); ok && m.some(0.4) {
			return v
		}
	}
	switch kind {
	case "str":
		return m.str(depth)
	case "num":
		return m.num(depth)
	case "bool":
		return m.boolean(depth)
	case "vec":
		if depth > 0 && m.some(0.4) {
			return m.pick("sortByLabel "+m.pick(`"job"`, `"instance"`)+" "+m.arg("vec", d), `query "three" | sortByLabel "instance"`, "slice "+m.arg("vec", d)+" 1", "slice "+m.arg("vec", d)+" 0 1", "slice "+m.arg("vec", d)+" 0 1 2")
		}
		return m.pick(`query "three"`, `query "one"`, `query "three"`, `query "none"`, `query "bad"`)
	case "sample":
		return m.pick("first "+m.arg("vec", d), fmt.Sprintf("index %s %d", m.arg("vec", d), m.Intn(4)), `query "one" | first`)
	case "map":
		if depth > 0 && m.some(0.3) {
			return m.pick("args "+m.plain(d)+" "+m.plain(d), m.arg("sample", d)+".Labels", "args")
		}
		return m.pick("$labels", ".Labels", "$externalLabels", "$.ExternalLabels")
	case "time":
		if depth > 0 && m.some(0.3) {
			return m.arg("time", d) + m.pick(".UTC", ".Add 3600000000000", ".AddDate 0 1 -3", ".Truncate 3600000000000", ".Round 86400000000000")
		}
		return "toTime " + m.pick("now", "0", "1700000000.5", "-1e9", "$value", "1e9", m.arg("num", d))
	case "dur":
		return "toDuration " + m.pick("90.5", "$value", "-3661", "0.0015", "1e-7", "86400", "0", m.arg("num", d))
	case "duration":
		return m.arg("dur", d) + m.pick(".Abs", ".Round 1000000000", ".Truncate 60000000000")
	case "month":
		return m.arg("time", d) + m.pick(".Month", ".Weekday")
	case "html":
		return "safeHtml " + m.arg("str", d)
	case "byte":
		return "index " + m.arg("str", d) + " " + m.pick("0", "1", "2")
	case "nil":
		return "nil"
	case "data":
		return m.pick(".", "$")
	}
	panic(kind)
}

func (m *maker) open() string  { return m.pick("{{", "{{", "{{ ", "{{- ", "{{\n") }
func (m *maker) close() string { return m.pick("}}", "}}", " }}", " -}}", "\n}}") }

func (m *maker) action(s string) string { return m.open() + s + m.close() }

func (m *maker) kind() string {
	return m.pick("str", "str", "str", "num", "num", "bool", "map", "sample", "time", "dur", "duration", "month", "byte", "html")
}

func (m *maker) list(depth int) string {
	var b strings.Builder
	for n := 1 + m.Intn(3); n > 0; n-- {
		b.WriteString(m.text())
		b.WriteString(m.item(depth))
	}
	b.WriteString(m.text())
	return b.String()
}

// What is declared in f is not seen behind it.
func (m *maker) scoped(f func() string) string {
	n := len(m.vars)
	s := f()
	m.vars = m.vars[:n]
	return s
}

func (m *maker) declare(kind string) string {
	name := m.pick("$a", "$b", "$c", "$x1")
	m.vars = append(m.vars, variable{name, kind})
	return name
}

func (m *maker) branch(depth int) string {
	return m.scoped(func() string {
		word, kind := m.pick("if", "with"), m.kind()
		e := m.expr(kind, 2)
		if m.some(0.3) {
			e = m.declare(kind) + " := " + e
		}
		s := m.action(word+" "+e) + m.list(depth)
		if m.some(0.3) {
			s += m.action("else "+word+" "+m.expr(m.kind(), 2)) + m.list(depth)
		}
		if m.some(0.5) {
			s += m.action("else") + m.list(depth)
		}
		return s + m.action("end")
	})
}

func (m *maker) loop(depth int) string {
	return m.scoped(func() string {
		kind, head := m.pick("vec", "map", "int"), ""
		of := "3"
		if kind == "int" {
			of = m.pick("3", "0", "-1", "len $labels.job", "5")
		} else {
			of = m.expr(kind, 2)
		}
		elem := map[string]string{"vec": "sample", "map": "str", "int": "num"}[kind]
		if kind != "int" && m.some(0.4) {
			head = "$k, $v := "
			m.vars = append(m.vars, variable{"$v", elem}, variable{"$k", map[string]string{"vec": "num", "map": "str"}[kind]})
		} else if m.some(0.5) {
			head = "$e := "
			m.vars = append(m.vars, variable{"$e", elem})
		}
		body := m.list(depth)
		if m.some(0.3) {
			body += m.action("if "+m.expr("bool", 1)) + m.action(m.pick("break", "continue")) + m.action("end") + m.text()
		}
		s := m.action("range "+head+of) + body
		if m.some(0.3) {
			s += m.action("else") + m.list(depth)
		}
		return s + m.action("end")
	})
}

func (m *maker) item(depth int) string {
	if depth <= 0 {
		return m.action(m.expr(m.kind(), 2))
	}
	d := depth - 1
	switch m.Intn(12) {
	case 0, 1:
		return m.branch(d)
	case 2:
		return m.loop(d)
	case 3:
		kind := m.pick("str", "num", "vec", "sample", "map", "time", "dur")
		e := m.expr(kind, 2)
		return m.action(m.declare(kind) + " := " + e)
	case 4:
		if v, ok := m.variable("str"); ok {
			return m.action(v + " = " + m.expr("str", 2))
		}
		return m.action("/* a comment */")[0:0] + "{{/* a comment */}}"
	case 5:
		m.defs++
		name := fmt.Sprintf("t%d", m.defs)
		vars := m.vars
		m.vars = nil
		body := strings.NewReplacer("$labels", ".", "$value", ".", "$externalLabels", ".", "$externalURL", ".").Replace(m.list(0))
		m.vars = vars
		if m.some(0.3) {
			return m.action(fmt.Sprintf("block %q %s", name, m.any(1))) + body + m.action("end")
		}
		m.head.WriteString(m.action(fmt.Sprintf("define %q", name)) + body + m.action("end"))
		return m.action(fmt.Sprintf("template %q %s", name, m.any(1)))
	case 6:
		return m.pick("{{- /* trimmed */ -}}", "{{/* x */}}")
	default:
		return m.action(m.expr(m.kind(), 3))
	}
}

// A byte put in, taken away or changed: what is no template has to be refused alike.
func (m *maker) broken(s string) string {
	i := m.Intn(len(s) + 1)
	j := min(len(s), i+m.Intn(3))
	return s[:i] + m.pick("", "{{", "}}", "(", ")", ".", "|", "\"", "$", " ", "-", "end", ":=", ",", "'", "`", "é", "0x", "{{end}}", "{{else}}") + s[j:]
}

func random(n int, seed int64, one func(value, text string)) {
	for i := 0; i < n; i++ {
		m := &maker{Rand: rand.New(rand.NewSource(seed + int64(i)))}
		value := m.pick("0.8125", "0", "1", "NaN", "+Inf", "-12345.678", "1e6", strconv.FormatFloat(m.ExpFloat64()*math.Pow(10, float64(m.Intn(20)-8)), 'g', -1, 64))
		text := m.list(2)
		text = m.head.String() + text
		if m.some(0.15) {
			text = m.broken(text)
		}
		one(value, text)
	}
}
