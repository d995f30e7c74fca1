package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/node"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.BuildVersion("roost")
			if a.json() {
				return a.printJSON(v)
			}
			_, err := fmt.Fprintln(a.out, v)
			return err
		},
	}
}
