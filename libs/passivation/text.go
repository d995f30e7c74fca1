package passivation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a strategy as it is written in a configuration: a name, then settings,
// separated by spaces.
//
//	none                         nothing is passivated
//	idle=2m                      what has had nothing to do for two minutes
//	lru limit=10000              the least recently used
//	lru limit=10000 idle=10m     the same, and what has had nothing to do for ten minutes
//	slru limit=10000 segments=0.2/0.8
//	mru limit=10000              the most recently used
//	lfu limit=10000 aging=on     the least frequently used, with dynamic aging
//	composite limit=100000       window, filter and segmented LRU
//
// A composite can be changed by main, segments and aging (its main area), window,
// window.segments, window.aging, window.proportion, window.min, window.max, climb (on or
// off), climb.every, climb.step, climb.restart, climb.decay, filter (on or off), filter.depth,
// filter.bits, filter.width and filter.reset. [Admission] documents them.
func Parse(text string) (Strategy, error) {
	s, words := None(), strings.Fields(text)
	if len(words) == 0 {
		return s, errors.New("passivation: the strategy is empty; write none, idle=2m, lru, slru, mru, lfu or composite, with limit=10000 for all but the first two")
	}
	if !strings.Contains(words[0], "=") {
		p := preset(words[0])
		if p == nil {
			return s, fmt.Errorf("passivation: there is no strategy %q; use none, idle=2m, lru, slru, mru, lfu or composite", words[0])
		}
		s, words = *p, words[1:]
	}
	given := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch _, twice := given[key]; {
		case value == "":
			return s, fmt.Errorf("passivation: %q is not a setting; write key=value, such as limit=10000", w)
		case twice:
			return s, fmt.Errorf("passivation: %s is given twice", key)
		}
		given[key] = value
	}
	for _, t := range settings {
		value, ok := given[t.key]
		if !ok {
			continue
		}
		delete(given, t.key)
		if err := t.set(&s, value); err != nil {
			return s, fmt.Errorf("passivation: %s=%s: %w", t.key, value, err)
		}
	}
	for _, w := range words {
		if key, _, _ := strings.Cut(w, "="); given[key] != "" {
			return s, fmt.Errorf("passivation: there is no setting %s; see idle, limit, segments, aging and the settings of composite", key)
		}
	}
	return s, s.Validate()
}

// String returns the text that [Parse] turns into the same strategy.
func (s Strategy) String() string {
	name := s.name()
	base := *preset(name)
	words := []string{name}
	for _, t := range settings {
		if value := t.get(&s); value != t.get(&base) {
			words = append(words, t.key+"="+value)
			_ = t.set(&base, value) // set fails only for a value that Validate refuses
		}
	}
	if name == "none" && len(words) > 1 {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// MarshalText returns the text of [Strategy.String].
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a text as [Parse] does.
func (s *Strategy) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// preset returns the strategy with a name, as it is without any settings; nil if there is none.
// Only the composite has a limit by default.
func preset(name string) *Strategy {
	switch name {
	case "none":
		return new(None())
	case "lru":
		return new(LRU(0))
	case "slru":
		return new(SegmentedLRU(0, 0.2, 0.8))
	case "mru":
		return new(MRU(0))
	case "lfu":
		return new(LFU(0))
	case "composite":
		return new(Composite(DefaultLimit))
	}
	return nil
}

func (s *Strategy) name() string {
	switch {
	case s.Admission != nil:
		return "composite"
	case s.Main.Order == LeastRecentlyUsed && len(s.Main.Proportions) > 0:
		return "slru"
	}
	return s.Main.Order.String()
}

// String is lru, mru, lfu, or none for the zero Order.
func (o Order) String() string {
	switch o {
	case LeastRecentlyUsed:
		return "lru"
	case MostRecentlyUsed:
		return "mru"
	case LeastFrequentlyUsed:
		return "lfu"
	}
	return "none"
}

// setting is one key of the text. If the strategy has no part that the key is about, get returns
// "" and set returns an error.
type setting struct {
	key string
	get func(*Strategy) string
	set func(*Strategy, string) error
}

// settings are in the order in which they are read and written. A setting that adds a part to
// the strategy comes before the settings of this part.
var settings = []setting{
	field("idle", always, func(s *Strategy) *time.Duration { return &s.Idle }, time.Duration.String, parseDuration),
	field("limit", always, func(s *Strategy) *int { return &s.Limit }, strconv.Itoa, parseWhole),
	field("main", inComposite, func(s *Strategy) *Replacement { return &s.Main }, formatOrder, parseOrder),
	field("segments", always, func(s *Strategy) *[]float64 { return &s.Main.Proportions }, formatParts, parseParts),
	field("aging", always, func(s *Strategy) *bool { return &s.Main.DynamicAging }, formatSwitch, parseSwitch),
	field("window", inComposite, func(s *Strategy) *Replacement { return &s.Admission.Window }, formatOrder, parseOrder),
	field("window.segments", inComposite, func(s *Strategy) *[]float64 { return &s.Admission.Window.Proportions }, formatParts, parseParts),
	field("window.aging", inComposite, func(s *Strategy) *bool { return &s.Admission.Window.DynamicAging }, formatSwitch, parseSwitch),
	number("window.proportion", inComposite, func(s *Strategy) *float64 { return &s.Admission.Proportion }),
	number("window.min", inComposite, func(s *Strategy) *float64 { return &s.Admission.MinProportion }),
	number("window.max", inComposite, func(s *Strategy) *float64 { return &s.Admission.MaxProportion }),
	field("climb", inComposite, func(s *Strategy) **HillClimbing { return &s.Admission.Optimizer }, formatPart, parsePart(DefaultHillClimbing)),
	number("climb.every", climbs, func(s *Strategy) *float64 { return &s.Admission.Optimizer.AdjustMultiplier }),
	number("climb.step", climbs, func(s *Strategy) *float64 { return &s.Admission.Optimizer.InitialStep }),
	number("climb.restart", climbs, func(s *Strategy) *float64 { return &s.Admission.Optimizer.RestartThreshold }),
	number("climb.decay", climbs, func(s *Strategy) *float64 { return &s.Admission.Optimizer.StepDecay }),
	field("filter", inComposite, func(s *Strategy) **Filter { return &s.Admission.Filter }, formatPart, parsePart(DefaultFilter)),
	field("filter.depth", filters, func(s *Strategy) *int { return &s.Admission.Filter.Depth }, strconv.Itoa, parseWhole),
	field("filter.bits", filters, func(s *Strategy) *int { return &s.Admission.Filter.CounterBits }, strconv.Itoa, parseWhole),
	field("filter.width", filters, func(s *Strategy) *int { return &s.Admission.Filter.WidthMultiplier }, strconv.Itoa, parseWhole),
	number("filter.reset", filters, func(s *Strategy) *float64 { return &s.Admission.Filter.ResetMultiplier }),
}

// A place returns "" if a strategy has the part that a setting is about. Otherwise it names the
// part that the strategy must have.
type place func(*Strategy) (missing string)

func always(*Strategy) string { return "" }

func inComposite(s *Strategy) string {
	if s.Admission == nil {
		return "is for composite only"
	}
	return ""
}

func climbs(s *Strategy) string {
	if s.Admission == nil || s.Admission.Optimizer == nil {
		return "is for composite with climb=on only"
	}
	return ""
}

func filters(s *Strategy) string {
	if s.Admission == nil || s.Admission.Filter == nil {
		return "is for composite with filter=on only"
	}
	return ""
}

func field[T any](key string, in place, at func(*Strategy) *T, format func(T) string, parse func(string) (T, error)) setting {
	return setting{
		key: key,
		get: func(s *Strategy) string {
			if in(s) != "" {
				return ""
			}
			return format(*at(s))
		},
		set: func(s *Strategy, text string) error {
			if missing := in(s); missing != "" {
				return errors.New(missing)
			}
			v, err := parse(text)
			if err == nil {
				*at(s) = v
			}
			return err
		},
	}
}

func number(key string, in place, at func(*Strategy) *float64) setting {
	return field(key, in, at, formatNumber, parseNumber)
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func parseNumber(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errors.New("must be a number")
	}
	return v, nil
}

func parseWhole(text string) (int, error) {
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("must be a whole number")
	}
	return v, nil
}

func parseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("must be a duration, such as 90s or 2m")
	}
	return v, nil
}

func formatOrder(r Replacement) string { return r.Order.String() }

// parseOrder returns a replacement without segments and aging; they have keys of their own.
func parseOrder(text string) (Replacement, error) {
	for o := Order(0); o <= LeastFrequentlyUsed; o++ {
		if text == o.String() {
			return Replacement{Order: o}, nil
		}
	}
	return Replacement{}, errors.New("must be none, lru, mru or lfu")
}

// formatParts returns "1" if there are no proportions: one segment has all of the limit.
func formatParts(parts []float64) string {
	if len(parts) == 0 {
		return "1"
	}
	var b []byte
	for i, p := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = strconv.AppendFloat(b, p, 'g', -1, 64)
	}
	return string(b)
}

func parseParts(text string) (parts []float64, err error) {
	if text == "1" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, "/") {
		p, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, errors.New("must be parts with the sum 1, such as 0.2/0.8")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func formatSwitch(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func parseSwitch(text string) (bool, error) {
	switch text {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, errors.New("must be on or off")
}

func formatPart[T any](part *T) string { return formatSwitch(part != nil) }

func parsePart[T any](defaults func() T) func(string) (*T, error) {
	return func(text string) (*T, error) {
		on, err := parseSwitch(text)
		if !on {
			return nil, err
		}
		return new(defaults()), nil
	}
}
