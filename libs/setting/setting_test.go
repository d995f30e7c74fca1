package setting

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

type limits struct {
	Commands int           `key:"commands" help:"must not be below {.shard.commands}" unit:"commands" range:"1..1000"`
	Share    float64       `key:"share" range:">0..1" why:"nothing would be left"`
	Size     Bytes         `key:"size" range:"1KiB.."`
	Wait     time.Duration `key:"wait" range:">0..1m" expert:"true"`
	Port     uint16        `key:"port" range:"0..65535"`
	Timeout  time.Duration `key:"timeout" range:">0"`
	Unit     int           `range:"1.."`
	private  int
}

func good() limits {
	return limits{Commands: 1, Share: 0.5, Size: 1 << 10, Wait: time.Second, Timeout: 1, Unit: 1}
}

type middle struct {
	limits
	URL   string            `key:"url" secret:"url" help:"…"`
	Types map[string]string `key:"types" nested:"true"`
	Level level             `key:"level"`
}

// level is a struct that is read from text.
type level struct{}

func (l *level) UnmarshalText([]byte) error { return nil }

func TestFields(t *testing.T) {
	type plain struct {
		Front  limits `key:"gateway" omit:"wait"`
		Routed limits `key:"region.routed" omit:"timeout,wait" expert:"true"`
		Rest   middle `expert:"port,url"`
	}
	fields, err := Fields(&plain{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range fields {
		text := f.Key
		for _, flag := range []struct {
			name string
			set  bool
		}{{"expert", f.Expert}, {"secret", f.Secret}, {"file", f.File}, {"nested", f.Nested}} {
			if flag.set {
				text += " " + flag.name
			}
		}
		got = append(got, text)
	}
	want := "gateway.commands|gateway.share|gateway.size|gateway.port|gateway.timeout|" +
		"region.routed.commands expert|region.routed.share expert|region.routed.size expert|region.routed.port expert|" +
		"commands|share|size|wait expert|port expert|timeout|url expert file|types nested|level"
	if strings.Join(got, "|") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, "|"), want)
	}
	if f := fields[5]; f.Help != "must not be below region.routed.shard.commands" || f.Unit != "commands" || f.Range != "1..1000" {
		t.Errorf("%+v", f)
	}
	fields[0].Value.SetInt(7) // it is the field of the struct
}

func TestFieldsRefuses(t *testing.T) {
	type hidden struct {
		a int `key:"a"`
	}
	type twice struct {
		A int `key:"a.b"`
		B int `key:"a_b"`
	}
	type experts struct {
		A limits `key:"a" expert:"wait,patience"`
	}
	type omits struct {
		A limits `key:"a" omit:"wait,patience"`
	}
	for text, config := range map[string]any{
		"field a is not exported":               &hidden{},
		"the same name in the environment":      &twice{},
		"omits.A names a.patience":              &omits{},
		"experts.A names a.patience":            &experts{},
		"want a pointer to a struct":            limits{},
		"of type *int: want a pointer to a str": new(int),
	} {
		if _, err := Fields(config); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_ = hidden{a: 1}
}

func TestRanges(t *testing.T) {
	c := good()
	c.private = -1
	if err := Ranges(&c); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*limits){
		"commands is 0, must be 1 to 1000":                                    func(l *limits) { l.Commands = 0 },
		"commands is 1001, must be 1 to 1000":                                 func(l *limits) { l.Commands = 1001 },
		"share is 0, must be above 0 and at most 1: nothing would be left":    func(l *limits) { l.Share = 0 },
		"share is 1.5, must be above 0 and at most 1: nothing would be left":  func(l *limits) { l.Share = 1.5 },
		"share is NaN, must be above 0 and at most 1: nothing would be left":  func(l *limits) { l.Share = math.NaN() },
		"size is 1023, must be at least 1KiB":                                 func(l *limits) { l.Size = 1023 },
		"wait is 0s, must be above 0 and at most 1m":                          func(l *limits) { l.Wait = 0 },
		"wait is 1m0.000000001s, must be above 0 and at most 1m":              func(l *limits) { l.Wait = time.Minute + 1 },
		"timeout is -1ns, must be above 0":                                    func(l *limits) { l.Timeout = -1 },
		"setting.limits.Unit is 0, must be at least 1":                        func(l *limits) { l.Unit = 0 },
		"commands is 1000000000, must be 1 to 1000":                           func(l *limits) { l.Commands = 1e9 },
		"timeout is -2562047h47m16.854775808s, must be above 0":               func(l *limits) { l.Timeout = math.MinInt64 },
		"share is -Inf, must be above 0 and at most 1: nothing would be left": func(l *limits) { l.Share = math.Inf(-1) },
		"wait is 2562047h47m16.854775807s, must be above 0 and at most 1m":    func(l *limits) { l.Wait = math.MaxInt64 },
		"size is -1, must be at least 1KiB":                                   func(l *limits) { l.Size = -1 },
	} {
		c := good()
		change(&c)
		if err := Ranges(&c); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	both := good()
	both.Commands, both.Size = -1, 3
	if err := Ranges(&both); err == nil || err.Error() != "commands is -1, must be 1 to 1000\nsize is 3, must be at least 1KiB" {
		t.Error(err)
	}
	edge := good()
	edge.Commands, edge.Share, edge.Wait, edge.Port = 1000, 1, time.Minute, 65535
	if err := Ranges(&edge); err != nil {
		t.Error(err)
	}
}

func TestRangesOfTypes(t *testing.T) {
	for text, config := range map[string]any{
		"only numbers": &struct {
			A string `range:"1.."`
		}{},
		"write low..high": &struct {
			A int `range:"1"`
		}{},
		"it is empty": &struct {
			A int `range:"2..1"`
		}{},
		"is empty": &struct {
			A int `range:">2..2"`
		}{},
		"invalid syntax": &struct {
			A int `range:"1s.."`
		}{},
		"missing unit": &struct {
			A time.Duration `range:"1.."`
		}{},
		"not a size": &struct {
			A Bytes `range:"1m.."`
		}{},
	} {
		if err := Ranges(config); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// core has conditions of its own.
type core struct {
	Min, Max int
	Low      int `key:"low" range:"1.."`
	High     int `key:"high"`
}

var errCore = errors.New("bad core")

func (c *core) Validate() error {
	errs := []error{Ranges(c)}
	if c.High < c.Low {
		errs = append(errs, Errorf("high", "is %d, must not be below %s (%d): %w", c.High, Key("low"), c.Low, errCore))
	}
	return Wrap(errCore, errors.Join(errs...))
}

func TestNested(t *testing.T) {
	type embeds struct {
		Core  core   `key:"region.core"`
		Other core   // at the same level
		Front limits `key:"gateway"`
	}
	c := embeds{Core: core{Low: 2, High: 1}, Front: good()}
	c.Front.Commands = 0
	err := Ranges(&c)
	want := "bad core: region.core.high is 1, must not be below region.core.low (2): bad core\n" +
		"bad core: low is 0, must be at least 1\n" +
		"gateway.commands is 0, must be 1 to 1000"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if !errors.Is(err, errCore) {
		t.Error("it does not wrap the reason")
	}
}

func TestPrefix(t *testing.T) {
	plain := errors.New("plain")
	err := errors.Join(Errorf("a", "is wrong, see %s", Key("b")), errors.Join(plain, Wrap(errCore, errors.Join(Errorf("c", "too"), nil))), nil)
	twice := Prefix("x", Prefix("y", err))
	if want := "x.y.a is wrong, see x.y.b\nplain\nbad core: x.y.c too"; twice.Error() != want {
		t.Errorf("got %v\nwant %s", twice, want)
	}
	if !errors.Is(twice, plain) || !errors.Is(twice, errCore) {
		t.Error("what it wraps is gone")
	}
	if err.Error() != "a is wrong, see b\nplain\nbad core: c too" {
		t.Errorf("it has changed: %v", err)
	}
	if Prefix("x", nil) != nil || Wrap(errCore, nil) != nil || Prefix("x", errors.Join(nil, nil)) != nil {
		t.Error("nil became an error")
	}
	if wraps := Prefix("x", fmt.Errorf("%w and %w", plain, errCore)); wraps.Error() != "plain and bad core" {
		t.Errorf("an error with two reasons is not a list: %v", wraps)
	}
	if Prefix("", err) != err {
		t.Error("an empty prefix changed it")
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "512B": 512, "64KiB": 64 << 10, "16 MiB": 16 << 20, "2GiB": 2 << 30, "1kB": 1000, "3MB": 3e6, "4GB": 4e9, "7B": 7,
		"9223372036854775807": 1<<63 - 1,
	} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Errorf("%d is written %s and read as %d, %v", want, want.String(), got, err)
		}
	}
	for _, text := range []string{"", "KiB", "-1", "1.5MiB", "1TiB", "9223372036854775807KiB", "99999999999999999999"} {
		if err := new(Bytes).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for b, want := range map[Bytes]string{0: "0", 1000: "1000", 1 << 10: "1KiB", 5 << 20: "5MiB", 1 << 40: "1024GiB"} {
		if b.String() != want {
			t.Errorf("%d is written %s", int64(b), b)
		}
	}
}
