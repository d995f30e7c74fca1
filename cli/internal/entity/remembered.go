package entity

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) rememberedCommand() *cobra.Command {
	var l app.Listed
	cmd := &cobra.Command{
		Use: "remembered [TYPE | TYPE ID | TYPE/ID]", Short: "List remembered entities",
		Long: `Lists the entities that are brought to life whenever their shard starts, without a
command: all of them, all of a type, or one. They are ordered by type and shard, and in
each shard by their last activity, newest first. ACTIVE is its time, to the hour. What cannot be started, or has died, is tried again.

` + listedHelp,
		Example: "  roost entity remembered Probe\n  roost entity remembered --failing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.Of(args); err != nil {
				return err
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RememberedResponse{}
			err = l.Pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Remembered(cmd.Context(), &adminv1.RememberedRequest{Type: l.Type, Id: l.ID, After: after, Limit: limit, Failing: l.Failing})
				if err != nil {
					return 0, "", err
				}
				all.Remembered, all.Damaged, all.Next = append(all.Remembered, res.Remembered...), append(all.Damaged, res.Damaged...), res.Next
				all.Silent, all.More = append(all.Silent, res.Silent...), res.More
				return len(all.Remembered), res.Next, nil
			})
			if err != nil {
				return err
			}
			var rows [][]any
			var failures []*adminv1.Failure
			for _, r := range all.Remembered {
				active := "-"
				if r.ActiveUnixMs > 0 {
					active = phrase.TimeOf(r.ActiveUnixMs)
				}
				rows, failures = append(rows, []any{phrase.Named(r.Type + "/" + r.Id), active}), append(failures, r.Failure)
			}
			if a.JSON() {
				return a.PrintMessage(all)
			}
			return a.printListed([]string{"ENTITY", "ACTIVE"}, rows, failures, answered{all.Next, all.Damaged, all.Silent, all.More})
		},
	}
	listedFlags(&l, cmd)
	return cmd
}
