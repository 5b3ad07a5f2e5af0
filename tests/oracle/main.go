// SPDX-License-Identifier: Apache-2.0

// Oracle does with google/pprof's own package what our model is compared with:
//
//	oracle merge OUT IN...      the profiles merged
//	oracle diff OUT BASE NEW    NEW minus BASE, as `pprof -base`
//	oracle copy OUT IN          decoded and encoded; also of legacy formats
//	oracle folded OUT IN        a profile made of folded text, "a;b;c 12" a line
//	oracle uninteresting OUT IN without what its drop_frames and keep_frames say
//	oracle scale=A,B... OUT IN  the sample types times A, B ...
//	oracle FILTER=RE OUT IN     filtered: focus, ignore, hide, show, show_from, prune_from
package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

func read(path string) (*profile.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return profile.Parse(f)
}

// folded is what a profile of that text has to be.
func folded(path string) (*profile.Profile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	locations := map[string]*profile.Location{}
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		at := strings.LastIndexAny(line, " \t")
		if at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, err
		}
		s := &profile.Sample{Value: []int64{int64(math.Round(v))}}
		for _, name := range strings.Split(strings.TrimSpace(line[:at]), ";") {
			if name == "" {
				continue
			}
			l := locations[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name}
				l = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Function = append(p.Function, f)
				p.Location = append(p.Location, l)
				locations[name] = l
			}
			s.Location = append([]*profile.Location{l}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	return p, p.CheckValid()
}

func readAll(paths []string) ([]*profile.Profile, error) {
	var all []*profile.Profile
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func filter(p *profile.Profile, name, expr string) error {
	re, err := regexp.Compile(expr)
	if err != nil {
		return err
	}
	switch name {
	case "focus":
		p.FilterSamplesByName(re, nil, nil, nil)
	case "ignore":
		p.FilterSamplesByName(nil, re, nil, nil)
	case "hide":
		p.FilterSamplesByName(nil, nil, re, nil)
	case "show":
		p.FilterSamplesByName(nil, nil, nil, re)
	case "show_from":
		p.ShowFrom(re)
	case "prune_from":
		p.PruneFrom(re)
	default:
		return fmt.Errorf("unknown filter %q", name)
	}
	return nil
}

func scale(p *profile.Profile, list string) error {
	var ratios []float64
	for _, word := range strings.Split(list, ",") {
		ratio, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return err
		}
		ratios = append(ratios, ratio)
	}
	return p.ScaleN(ratios)
}

func run(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("too few words: %q", words)
	}
	if words[0] == "folded" {
		p, err := folded(words[2])
		if err != nil {
			return err
		}
		return write(words[1], p)
	}
	in, err := readAll(words[2:])
	if err != nil {
		return err
	}
	out := in[0]
	name, expr, isFilter := strings.Cut(words[0], "=")
	switch name {
	case "merge":
		out, err = profile.Merge(in)
	case "diff":
		in[0].Scale(-1)
		out, err = profile.Merge(in)
	case "copy":
	case "uninteresting":
		err = out.RemoveUninteresting()
	case "scale":
		err = scale(out, expr)
	default:
		err = fmt.Errorf("unknown command %q", words[0])
		if isFilter {
			err = filter(out, name, expr)
		}
	}
	if err != nil {
		return err
	}
	return write(words[1], out)
}

func write(path string, p *profile.Profile) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.Write(f)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
