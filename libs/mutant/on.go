//go:build mutants

package mutant

import "fmt"

var (
	active string
	names  map[string]bool // of all mutants, set by the overlay
)

// Activate switches the mutant with a name on, and all others off; "" switches all off. It panics if no guard has the name.
func Activate(name string) {
	if name != "" && !names[name] {
		panic(fmt.Sprintf("no guard has the mutant %q, or this build has no switches: use make mutants, or -overlay bin/mutants/overlay.json", name))
	}
	active = name
}

// On reports whether the named mutant is on.
func On(name string) bool { return active == name }
