package main

import (
	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *app) rememberedCommand() *cobra.Command {
	var l listed
	cmd := &cobra.Command{
		Use: "remembered [TYPE | TYPE ID | TYPE/ID]", Short: "List the entities that are remembered, and those that cannot be started",
		Long: `Lists the entities that are brought to life whenever their shard starts, without a
command: all of them, those of a type, or one. The order is that of the types and shards,
and in each shard those come first that were active last. ACTIVE is when that was, to the
hour. What cannot be started, or has died, is tried again.

` + listedHelp,
		Example: "  roost remembered Probe\n  roost remembered --failing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.of(args); err != nil {
				return err
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RememberedResponse{}
			err = l.pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Remembered(cmd.Context(), &adminv1.RememberedRequest{Type: l.typ, Id: l.id, After: after, Limit: limit, Failing: l.failing})
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
					active = timeOf(r.ActiveUnixMs)
				}
				rows, failures = append(rows, []any{named(r.Type + "/" + r.Id), active}), append(failures, r.Failure)
			}
			if a.json() {
				return a.printMessage(all)
			}
			return a.printListed([]string{"ENTITY", "ACTIVE"}, rows, failures, answered{all.Next, all.Damaged, all.Silent, all.More})
		},
	}
	l.flags(cmd)
	return cmd
}
