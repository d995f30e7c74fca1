// Package shard has the commands about shards: where they are and why, moves and pins.
//
// It chooses no region: the coordinator does, or the operator.
package shard

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.shardsCommand(), g.whereCommand(), g.whyCommand(), g.moveCommand(), g.pinCommand(), g.unpinCommand()}
}
