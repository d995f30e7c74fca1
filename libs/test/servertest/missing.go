package servertest

import "os"

// Ender is the part of [testing.TB] that ends a test.
type Ender interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Missing ends a test that needs a program which this machine does not have. The test is
// skipped, but fails if CI is "true", as continuous integration sets it: otherwise nothing would
// ever run it. The advice describes how to install the program.
func Missing(t Ender, what, advice string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no", what, "on this machine, and CI is true;", advice)
		return
	}
	t.Skip("SKIPPED: there is no", what, "on this machine;", advice)
}
