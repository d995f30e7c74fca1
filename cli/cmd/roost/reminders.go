package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// reminderDropCommand removes a reminder.
func (a *app) reminderDropCommand() *cobra.Command {
	b := builtin{command: sharding.ReminderDropCommand}
	r := repair{do: journal.Repair{Do: journal.DropReminder}, shard: noShard}
	cmd := &cobra.Command{
		Use: "drop TYPE/ID NAME --reason TEXT", Short: "Remove a reminder", Args: cobra.ExactArgs(2),
		Long: `Removes a reminder of an entity, such as one whose command fails again and again. None
of the entity's code runs for that, so it works for an entity that cannot be brought
to life, and for one that is quarantined. If no such reminder stands, nothing changes.

With --journal.url it needs no region, as where no region hosts the type any more: it
is removed from the journal itself, like roost repair does, and roost repair list
shows it. PostgreSQL needs the role that owns the schema for that.`,
		Example: `  roost reminders drop Cart/dora pay --reason "the order was cancelled, ticket 4711"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if b.typ, b.id, err = entityOf(args[:1], "TYPE/ID, such as Cart/dora"); err != nil {
				return err
			}
			if r.journal.url != "" {
				r.entity, r.do.Name, r.do.Reason = sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, args[1], b.reason
				return a.runRepair(cmd.Context(), &r)
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
	r.journal.add(cmd, "URL of the journal, for the owner of its schema: drop the reminder there, without a region")
	cmd.Flags().IntVar(&r.shard, "shard", noShard, "with --journal.url: the shard of the entity, if the coordinators' facts cannot say it")
	return cmd
}
