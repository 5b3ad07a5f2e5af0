// SPDX-License-Identifier: Apache-2.0

// Expands templates with Prometheus's own template package, as its alerting rules do, so that ours can be compared:
//
//	template cases            templates from standard input, one a line: VALUE \t TEXT
//	template random N SEED    N templates made up from a grammar
//
// Either writes a line per template, VALUE \t TEXT \t ok|parse|error \t OUTPUT, which template_oracle_test reads. Texts are
// escaped (\n, \t, \r, \\, \xHH). The environment below is the test's too.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	text_template "text/template"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/strutil"
)

const (
	name = "__alert_T"
	defs = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	now  = 1700000000123

	times = "&from=1699996400&to=1700000000.123"
)

var (
	externalURL, _ = url.Parse("http://pyrrha.example:9090/prof")
	alertLabels    = map[string]string{
		"instance": "shop-1.example.com:9090", "job": "api-server", "ip": "10.0.0.1:8080", "html": `<a href="x">'&'</a>`,
		"uni": "žluťoučký kůň 日本", "n": "12.5", "path": "/a/b c?d=e&f", "bad": "a\xffb", "multi": "one\ntwo\ttab",
	}
	externalLabels = map[string]string{"cluster": "eu-1", "replica": "a"}
)

func sample(v float64, pairs ...string) promql.Sample {
	return promql.Sample{F: v, Metric: labels.FromStrings(pairs...)}
}

func query(_ context.Context, q string, _ time.Time) (promql.Vector, error) {
	switch q {
	case "none":
		return nil, nil
	case "one":
		return promql.Vector{sample(42.5, "__name__", "one", "a", "b")}, nil
	case "three":
		return promql.Vector{
			sample(3, "__name__", "up", "instance", "c", "job", "x"),
			sample(0.125, "__name__", "up", "instance", "a", "job", "y"),
			sample(-2e9, "__name__", "up", "instance", "b", "job", "x", "__value__", "sv"),
		}, nil
	}
	return nil, errors.New("cannot be answered")
}

var (
	firstLine = regexp.MustCompile(`template: ` + name + `:1:(\d+): executing`)
	unescape  = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r")
	hexByte   = regexp.MustCompile(`\\\\|\\x[0-9a-f]{2}`)
)

func read(s string) string {
	s = hexByte.ReplaceAllStringFunc(s, func(h string) string {
		if h == `\\` {
			return h
		}
		b, _ := strconv.ParseUint(h[2:], 16, 8)
		return string([]byte{byte(b)})
	})
	return unescape.Replace(s)
}

func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Places are counted in the text alone, without what Prometheus puts before it.
func withoutDefs(msg string) string {
	return firstLine.ReplaceAllStringFunc(msg, func(m string) string {
		column, _ := strconv.Atoi(firstLine.FindStringSubmatch(m)[1])
		return strings.Replace(m, ":1:"+strconv.Itoa(column), ":1:"+strconv.Itoa(column-len(defs)), 1)
	})
}

func expand(value float64, text string) (kind, out string) {
	data := template.AlertTemplateData(alertLabels, externalLabels, externalURL.String(), promql.Sample{F: value})
	expander := template.NewTemplateExpander(context.Background(), defs+text, name, data, now, query, externalURL, nil)
	expander.Funcs(text_template.FuncMap{ // our links show the time of the evaluation
		"graphLink": func(expr string) string { return strutil.GraphLinkForExpression(expr) + times },
		"tableLink": func(expr string) string { return strutil.TableLinkForExpression(expr) + times },
	})
	out, err := expander.Expand()
	switch {
	case err == nil:
		return "ok", out
	case strings.HasPrefix(err.Error(), "error parsing"):
		return "parse", err.Error()
	}
	return "error", withoutDefs(err.Error())
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	one := func(value, text string) {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic(err)
		}
		kind, result := expand(v, text)
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", value, escape(text), kind, escape(result))
	}
	if len(os.Args) == 4 && os.Args[1] == "random" {
		n, _ := strconv.Atoi(os.Args[2])
		seed, _ := strconv.ParseInt(os.Args[3], 10, 64)
		random(n, seed, one)
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if value, text, ok := strings.Cut(in.Text(), "\t"); ok {
			text, _, _ = strings.Cut(text, "\t") // results of another time
			one(value, read(text))
		}
	}
}
