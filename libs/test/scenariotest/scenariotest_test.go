package scenariotest

import (
	"strings"
	"testing"
)

// echo is a core that repeats its inputs.
func echo(commands []string) (trace []string) {
	for _, c := range commands {
		if c == "panic" {
			panic("as told")
		}
		trace = append(trace, strings.Fields(c)[1:]...)
	}
	return trace
}

func TestPlay(t *testing.T) {
	const text = "# A remark alone.\n\n# One with commands.\nsay a b\nsay c\n----\na\nb\nc\n\nsay\n----\n"
	if got := play(text, echo); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
	for was, is := range map[string]string{
		"\nb\n":       "\nx\n",      // another trace
		"say c":       "say d",      // another command
		"\n----\na\n": "\n----\n\n", // less
		"c\n\nsay":    "c\n\nsay e", // a new command
	} {
		changed := strings.Replace(text, was, is, 1)
		if got := play(changed, echo); changed == text || got == changed {
			t.Errorf("%q instead of %q: no difference", is, was)
		}
	}
	// A block that has no dashes yet is run, too.
	if got := play("say a\n", echo); got != "say a\n----\na\n" {
		t.Errorf("a new block gives %q", got)
	}
}

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct{ want, got, hear string }{
		{"a\nb", "a\nc", "line 2\nwant b\ngot  c"},
		{"a", "a\nb", "line 2\nwant (end)\ngot  b"},
		{"a\nb", "a", "its end"},
	} {
		if heard := firstDifference(c.want, c.got); !strings.HasPrefix(heard, c.hear) {
			t.Errorf("heard %q, want %q", heard, c.hear)
		}
	}
}

func TestDiffering(t *testing.T) {
	same := func(*testing.T) Play { return echo }
	if n := Differing(t, same); n != 1 { // testdata has one that panics
		t.Errorf("%d scenarios differ, want 1", n)
	}
	if n := Differing(t, func(*testing.T) Play { return func([]string) []string { return nil } }); n != 2 {
		t.Errorf("%d scenarios differ from nothing, want 2", n)
	}
}
