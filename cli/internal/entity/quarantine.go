package entity

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *group) quarantineCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "quarantine", Short: "List, add and release entities that must not run", Args: cobra.NoArgs,
		Long: `An entity that ends the process of one region after the other is quarantined: it
does not run, and its commands are refused (ROOST-1019). Its reminders, its
remembered start and sends to it wait. The other entities of its shard are served.
See docs/repair.md.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.quarantineListCommand(), a.quarantineChangeCommand(false), a.quarantineChangeCommand(true))
	return cmd
}

func (a *group) quarantineListCommand() *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use: "list", Short: "List the entities that are quarantined, and those that are suspected", Args: cobra.NoArgs,
		Long: `Lists the entities that are quarantined, and the suspects: entities that ran when
regions ended. Suspects run, but in a region no two of them at the same time. A
suspect is forgotten when no region has ended for coordinator.quarantine_window
while the entity ran.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Quarantines(cmd.Context(), &adminv1.QuarantinesRequest{Type: typ})
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printQuarantines(res)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "entities of this type only")
	return cmd
}

func (a *group) printQuarantines(res *adminv1.QuarantinesResponse) error {
	if len(res.Entities) == 0 {
		return a.PrintLines([]string{"no entity is quarantined or suspected"})
	}
	var rows [][]any
	for _, q := range res.Entities {
		rows = append(rows, []any{
			phrase.Named(q.Type + "/" + q.Id), q.State, fmt.Sprintf("%s/%d", q.Type, q.Index), phrase.OrDash(q.Region), len(q.Crashes), phrase.OrDash(q.Command), phrase.OrDash(q.By), phrase.Since(q.SinceUnixMs), phrase.OrDash(q.Reason),
		})
	}
	return a.PrintTable([]string{"ENTITY", "STATE", "SHARD", "REGION", "CRASHES", "COMMAND", "BY", "SINCE", "REASON"}, rows)
}

func (a *group) quarantineChangeCommand(release bool) *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "add TYPE ID | TYPE/ID", Short: "Quarantine an entity: it does not run", Args: cobra.RangeArgs(1, 2),
		Long: `Quarantines an entity, and waits until the regions that may run it know of that: from
then on, no turn of the entity begins, and its commands are refused. A turn that
runs is not interrupted. Operators' commands such as roost
entity delete still work: none of the entity's code runs for them. The quarantine
outlives regions and coordinators; roost quarantine release ends it.`,
		Example: `  roost quarantine add Cart/dora --reason "its checkout takes all memory"`,
	}
	if release {
		cmd.Use, cmd.Short, cmd.Example = "release TYPE ID | TYPE/ID", "Let a quarantined entity run again", `  roost quarantine release Cart/dora --reason "fixed in v1.4.1"`
		cmd.Long = `Ends the quarantine of an entity, or a suspicion. Its next command is executed.
If that ends a region again, the entity is a suspect again.`
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		typ, id, err := app.EntityOf(args, "TYPE ID or TYPE/ID, such as Cart/dora")
		if err != nil {
			return err
		}
		return a.Steer(cmd.Context(), s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
			return admin.Quarantine(ctx, &adminv1.QuarantineRequest{Type: typ, Id: id, Release: release, DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason})
		}, func(*adminv1.SteerResponse) string {
			if release {
				return typ + "/" + id + " is not quarantined"
			}
			return typ + "/" + id + " is quarantined: it does not run"
		})
	}
	s.Flags(cmd)
	return cmd
}
