//go:build mutants

package lease

import "github.com/roost-cluster/roost/libs/mutant"

func activate(name string) { mutant.Activate(name) }
