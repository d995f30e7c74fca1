//go:build mutants

package mutant

// Enabled reports whether this build can switch guards off.
const Enabled = true

var active string

// Activate switches the named guard off, and all others on.
func Activate(name string) { active = name }

// On reports whether the named guard is switched off.
func On(name string) bool { return active == name }
