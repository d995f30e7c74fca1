package errornumber_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestEntries: the table is in order, complete, and consistent with what clients conclude from meta.outcome.
func TestEntries(t *testing.T) {
	form := regexp.MustCompile(`^ROOST-[0-9]{4}$`)
	last := errornumber.Number("")
	for _, e := range errornumber.All() {
		if !form.MatchString(string(e.Number)) || e.Number <= last {
			t.Errorf("%q comes after %q", e.Number, last)
		}
		last = e.Number
		if unknown := e.Number >= "ROOST-1101"; unknown != (e.Outcome == sharding.Unknown) {
			t.Errorf("%s is in the wrong range for the outcome %v", e.Number, e.Outcome)
		}
		if e.Outcome != sharding.NotApplied && (e.Repeat == errornumber.Later || e.Repeat == errornumber.IfAborted) {
			t.Errorf("%s may have run, and the command may be repeated without its key", e.Number)
		}
		if e.Outcome == 0 || e.Repeat == "" || e.Answers == nil {
			t.Errorf("%s lacks the command's outcome, whether a repeat helps, or the answers: %+v", e.Number, e)
		}
		for _, a := range e.Answers {
			if a.Code == "" || a.Status < 400 || http.StatusText(a.Status) == "" || !e.Comes(a.Code, a.Status) || e.Comes(a.Code, a.Status+1) && e.Number != errornumber.NoRoute {
				t.Errorf("%s: answer %+v", e.Number, a)
			}
		}
		for _, text := range []string{e.Causes, e.Action} {
			if !strings.HasSuffix(text, ".") || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %q is not a sentence for a table", e.Number, text)
			}
		}
		if e.Meaning == "" || strings.HasSuffix(e.Meaning, ".") || strings.ContainsAny(e.Meaning, "|\n") {
			t.Errorf("%s: the meaning %q is not one line without a full stop", e.Number, e.Meaning)
		}
		if found, ok := errornumber.Find(e.Number); !ok || found.Meaning != e.Meaning {
			t.Errorf("%s is not found", e.Number)
		}
	}
	if _, ok := errornumber.Find(errornumber.Prefix + "0999"); ok {
		t.Error("a number was found that there is not")
	}
	if r := errornumber.Ranges(); !regexp.MustCompile(`^ROOST-1001 to ROOST-10\d\d, ROOST-1101 to ROOST-11\d\d$`).MatchString(r) {
		t.Errorf("the ranges are %s", r)
	}
}

// TestColumns: codes and statuses are listed once each.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		n               errornumber.Number
		codes, statuses string
	}{
		{errornumber.NoRoute, "bad_route", "404, 405"},
		{errornumber.Failed, "internal, data_loss", "500"},
		{errornumber.Refused, "any other", "by code"},
	} {
		if e, _ := errornumber.Find(c.n); e.Codes() != c.codes || e.Statuses() != c.statuses {
			t.Errorf("%s: %s %s, want %s %s", c.n, e.Codes(), e.Statuses(), c.codes, c.statuses)
		}
	}
}
