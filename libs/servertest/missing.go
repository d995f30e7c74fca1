package servertest

import "os"

// Ender is a test, as far as ending it goes.
type Ender interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Missing ends a test that needs a program which is not on this machine: it is
// skipped, or fails where CI is "true", as continuous integration sets it. What is
// never run there would be proven nowhere. The advice says where to get the
// program.
func Missing(t Ender, what, advice string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no", what, "on this machine, and CI is true;", advice)
		return
	}
	t.Skip("SKIPPED: there is no", what, "on this machine;", advice)
}
