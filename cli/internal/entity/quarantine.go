package entity

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) quarantineCommand() *cobra.Command {
	s := &app.Steer{}
	var typ string
	cmd := &cobra.Command{
		Use: "quarantine [TYPE ID | TYPE/ID]", Short: "List, quarantine and release entities", Args: cobra.MaximumNArgs(2),
		Long: `An entity that ends the process of one region after the other is quarantined: it
does not run, and its commands are refused (ROOST-1019). Its reminders, its
remembered start and sends to it wait. The other entities of its shard are served.
See docs/running/repair.md.

Without an entity, it lists the entities that are quarantined, and the suspects: entities
that ran when regions ended. Suspects run, but in a region no two of them at the same time. A
suspect is forgotten when no region has ended for coordinator.quarantine_window
while the entity ran.

With an entity, it quarantines that entity, and waits until the regions that may run it know of that: from
then on, no turn of the entity begins, and its commands are refused. A turn that
runs is not interrupted. Operators' commands such as roost
entity delete still work: none of the entity's code runs for them. The quarantine
outlives regions and coordinators.

--undo ends the quarantine of an entity, or a suspicion. Its next command is executed.
If that ends a region again, the entity is a suspect again.`,
		Example: `  roost entity quarantine
  roost entity quarantine Cart/dora --reason "its checkout takes all memory"
  roost entity quarantine Cart/dora --undo --reason "fixed in v1.4.1"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listQuarantined(cmd, s, typ)
			}
			if cmd.Flags().Changed("type") {
				return app.Usage(errors.New("--type is for the list, without an entity"))
			}
			return a.quarantine(cmd.Context(), s, args)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "list entities of this type only")
	s.Flags(cmd)
	s.UndoFlag(cmd, "let the entity run again")
	return cmd
}

// listQuarantined lists quarantined entities and suspects.
func (a *group) listQuarantined(cmd *cobra.Command, s *app.Steer, typ string) error {
	if s.Undo || s.DryRun || s.Reason != "" {
		return app.Usage(errors.New("which entity? write TYPE/ID, such as Cart/dora"))
	}
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

// quarantine quarantines an entity, or ends its quarantine.
func (a *group) quarantine(ctx context.Context, s *app.Steer, args []string) error {
	typ, id, err := app.EntityOf(args, "TYPE ID or TYPE/ID, such as Cart/dora")
	if err != nil {
		return err
	}
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Quarantine(ctx, &adminv1.QuarantineRequest{Type: typ, Id: id, Release: s.Undo, DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason})
	}, func(*adminv1.SteerResponse) string {
		if s.Undo {
			return typ + "/" + id + " is not quarantined"
		}
		return typ + "/" + id + " is quarantined: it does not run"
	})
}
