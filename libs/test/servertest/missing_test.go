package servertest

import (
	"fmt"
	"strings"
	"testing"
)

// ended records how a test was ended.
type ended struct{ how string }

func (e *ended) Helper()        {}
func (e *ended) Fatal(a ...any) { e.how = "fatal " + fmt.Sprintln(a...) }
func (e *ended) Skip(a ...any)  { e.how = "skip " + fmt.Sprintln(a...) }

func TestMissing(t *testing.T) {
	for ci, want := range map[string]string{"true": "fatal", "": "skip", "false": "skip"} {
		t.Setenv("CI", ci)
		var e ended
		Missing(&e, "etcd", "apt-get install etcd-server")
		if !strings.HasPrefix(e.how, want+" ") || !strings.Contains(e.how, "apt-get install etcd-server") {
			t.Errorf("CI=%q: %s", ci, e.how)
		}
	}
}
