package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
)

// reminderDropCommand removes a reminder.
func (a *app) reminderDropCommand() *cobra.Command {
	b := builtin{command: sharding.ReminderDropCommand}
	cmd := &cobra.Command{
		Use: "drop TYPE/ID NAME --reason TEXT", Short: "Remove a reminder", Args: cobra.ExactArgs(2),
		Long: `Removes a reminder of an entity, such as one whose command fails again and again. None
of the entity's code runs for that, so it works for an entity that cannot be brought
to life, and for one that is quarantined. If no such reminder stands, nothing changes.`,
		Example: `  roost reminders drop Cart/dora pay --reason "the order was cancelled, ticket 4711"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if b.typ, b.id, err = entityOf(args[:1], "TYPE/ID, such as Cart/dora"); err != nil {
				return err
			}
			if b.payload, err = json.Marshal(sharding.ReminderDropInput{Name: args[1]}); err != nil {
				return err
			}
			res, err := a.builtin(cmd.Context(), &b)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(map[string]any{"type": b.typ, "id": b.id, "reminder": args[1], "dropped": true, "region": res.Region})
			}
			_, err = fmt.Fprintf(a.out, "%s/%s has no reminder %s any more (by %s)\n", b.typ, b.id, args[1], res.Region)
			return err
		},
	}
	a.builtinFlags(cmd, &b)
	return cmd
}
