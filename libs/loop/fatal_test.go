package loop

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFatal: a panic in a handler of net/http ends the process, and its output has the cause and the place.
func TestFatal(t *testing.T) {
	if os.Getenv("FATAL") != "" {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			defer Fatal()
			halfDone()
		}))
		_, err := http.Get(server.URL)
		t.Fatalf("the process continues: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestFatal$")
	cmd.Env = append(os.Environ(), "FATAL=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: a step is half done") || !strings.Contains(string(out), "loop.halfDone") || strings.Contains(string(out), "continues") {
		t.Errorf("%v: %s", err, out)
	}
	func() {
		defer Fatal() // and nothing has panicked
	}()
}

func halfDone() { panic("a step is half done") }
