package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTimeZones: a region has the time zones on a machine without files of them.
func TestTimeZones(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go command")
	}
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command(goTool, "list", "-deps", ".")
	list.Dir, list.Env = dir, os.Environ()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains("\n"+string(out), "\ntime/tzdata\n") {
		t.Error("the binary has no time zones")
	}
}
