// Package dev has the commands of a cluster on this machine: roost dev, and what lists, kills,
// stops and starts its processes.
//
// It does not start processes itself: package cli/cluster does.
package dev

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	return g.devCommand()
}
