package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/node"
)

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.BuildVersion("roost")
			if a.JSON() {
				return a.PrintJSON(v)
			}
			_, err := fmt.Fprintln(a.Out, v)
			return err
		},
	}
}
