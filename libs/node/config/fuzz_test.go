package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

// yamlWeight is the number of bytes of the environment or the command line that a byte of
// the file counts for. It cannot be lower: the YAML package takes 100 bytes for a byte of any
// file, and up to 570 where every other one begins a level ("? ? ?"). The file is the
// operator's own and at most maxConfig long, so no file takes more than 40 MiB.
const yamlWeight = 80

// FuzzLoad: no file, environment or command line causes a panic or takes memory out of
// proportion, and what is accepted means the same when it is written as flags.
func FuzzLoad(f *testing.F) {
	f.Add("region:\n  mailbox: 3\n", "ROOST_REGION_SMALL=4\nROOST_REGION_BUFFER=\nOTHER=1", "--region.small=5\n--node.exit-with-parent\n-log.level\ndebug")
	f.Add("a: &a [*a]\n", "ROOST_REGION_MAILBOX=x", "--region.mailbox")
	f.Add("? {a: b}\n: c\n", "ROOST_REGION_MAILBOXES=3", "x")
	f.Add("!!binary x: y", "ROOST_=1\n=\nROOST_X", "--\n-\n--=1")
	f.Add("region: {seeds: [a, b], labels: {a: b}, share: 0.1}\nregion.buffer: 2GiB\nlog: {level: WARN+2}\n", "ROOST_JOURNAL_URL=u", "--region.labels\nb=c,d=e")
	f.Add("a: &a [1, 2]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n", "", "--help")
	f.Add("region: {share: .nan}\n---\nregion: {}\n", "ROOST_REGION_SHARE=NaN", "--region.share=-0x1p-2\n--version")
	f.Add(strings.Repeat("- x\n", 1000), "ROOST_"+strings.Repeat("X", 5000)+"=1", "--"+strings.Repeat("x", 5000))
	f.Add(strings.Repeat("{", 500), strings.Repeat("ROOST_X=1\n", 300), "--print-config")
	for _, deep := range []string{"? ", "- ", "[", "a: {"} {
		f.Add(strings.Repeat(deep, 5000), "", "")
	}
	f.Fuzz(func(t *testing.T, content, environ, command string) {
		if strings.Contains(environ, "_FILE=") || strings.Contains(environ, "ROOST_CONFIG") {
			return // could name any file of this machine
		}
		path := writeFile(t, "roost.yaml", content)
		args := append(strings.Split(command, "\n"), "--config="+path)
		if command == "" {
			args = args[1:]
		}
		env := strings.Split(environ, "\n")
		archtest.Memory(t, archtest.MemoryFactor, yamlWeight*min(len(content), maxConfig)+len(environ)+len(command), func() {
			_, _ = Load(newExample(), args, env)
		})
		c := newExample()
		s, err := Load(c, args, env)
		if err != nil || s.Asked == "help" || s.Asked == "version" {
			return
		}
		if flags, ok := asFlags(s); ok {
			again := newExample()
			if s, err := Load(again, flags, nil); err != nil || !same(c, again) {
				t.Errorf("%+v\nis written %q\nand read as %+v, %v, %v", c, flags, again, err, s)
			}
		}
	})
}

// TestLongNames: comparing an unknown name with the known ones does not copy it each
// time.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("X", 20_000)
	archtest.Memory(t, archtest.MemoryFactor, len(long), func() {
		if s, err := Load(newExample(), nil, []string{"ROOST_" + long + "=1"}); err == nil {
			t.Errorf("%v, %v", s, err)
		}
	})
	archtest.Memory(t, archtest.MemoryFactor, len(long), func() { // quoted in an error
		if _, err := Load(newExample(), []string{"--" + long}, nil); err == nil {
			t.Error("the flag is accepted")
		}
	})
}

// asFlags returns every value as a flag. ok is false if an item contains a list
// separator, which only a file can express.
func asFlags(s *Sources) (flags []string, ok bool) {
	for _, f := range s.fields {
		text := f.text()
		var items []string
		switch v := f.Value.Interface().(type) {
		case []string:
			items = v
		case map[string]string:
			for key, value := range v {
				items = append(items, key+"="+value)
				if strings.Contains(key, "=") {
					return nil, false
				}
			}
			slices.Sort(items)
		}
		if !slices.Equal(splitList(text), items) && items != nil {
			return nil, false
		}
		flags = append(flags, f.flag()+"="+text)
	}
	return flags, true
}

// same reports whether two configurations are equal. An empty list equals none.
func same(a, b *exampleConfig) bool {
	x, err := fieldsOf(a)
	y, err2 := fieldsOf(b)
	return err == nil && err2 == nil && slices.EqualFunc(x, y, func(f, g *field) bool {
		return f.text() == g.text() && (f.Value.CanFloat() || f.Value.Kind() == reflect.Slice || f.Value.Kind() == reflect.Map ||
			reflect.DeepEqual(f.Value.Interface(), g.Value.Interface()))
	})
}
