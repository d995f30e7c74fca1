package foreign

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// evil is an error with a method that a test chooses.
type evil struct{ does func() }

func (e *evil) Error() string { e.does(); return "evil" }

// silent has a method that a test chooses, and is not an error.
type silent struct{ does func() }

func (s *silent) String() string { s.does(); return "silent" }

func TestText(t *testing.T) {
	again := &evil{}
	again.does = func() { panic(again) }
	for _, c := range []struct {
		of   any
		want string
	}{
		{nil, "<nil>"},
		{"why", "why"},
		{7, "7"},
		{errors.New("why"), "why"},
		{&evil{func() {}}, "evil"},
		{(*evil)(nil), "a nil *foreign.evil"},
		{(*silent)(nil), "a nil *foreign.silent"},
		{&silent{func() {}}, "silent"},
		{&evil{func() { panic("boom") }}, "the Error method of a *foreign.evil panicked: boom"},
		{&silent{func() { panic(errors.New("boom")) }}, "the String method of a *foreign.silent panicked: boom"},
		{&evil{func() { panic(&evil{func() { panic("boom") }}) }}, "the Error method of a *foreign.evil panicked: %!v(PANIC=Error method: boom)"},
		{again, "the Error method of a *foreign.evil panicked: a *foreign.evil"},
		{[]any{again}, "the Format method of a []interface {} panicked: a *foreign.evil"},
		{strings.Repeat("é", MaxText), strings.Repeat("é", MaxText/2) + fmt.Sprintf("… (cut, of %d bytes)", 2*MaxText)},
		{"x" + strings.Repeat("é", MaxText), "x" + strings.Repeat("é", MaxText/2-1) + fmt.Sprintf("… (cut, of %d bytes)", 2*MaxText+1)},
	} {
		if got := Text(c.of); got != c.want {
			t.Errorf("%T: %.200q, want %.200q", c.of, got, c.want)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Text(&evil{runtime.Goexit})
		t.Error("Goexit was survived")
	}()
	<-ended
}
