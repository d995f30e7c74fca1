package entity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/entity"
)

// builtin is a built-in command for an entity, as an operator sends it.
type builtin struct {
	typ, id, command string
	payload          []byte
	reason, key      string
	timeout          time.Duration
}

func (a *group) deleteCommand() *cobra.Command {
	b := builtin{command: sharding.DeleteCommand}
	cmd := &cobra.Command{
		Use: "delete TYPE ID | TYPE/ID --reason TEXT", Short: "Delete an entity",
		Args: cobra.RangeArgs(1, 2),
		Long: `Deletes an entity with its state, its reminders and, later, its records, whatever its handlers would say. It takes its turn after the
commands that already wait for the entity. From then on the entity is empty; the
next command begins a new life. Its reminders are gone; its sends to other entities
are delivered. Its records are removed when the keys of its commands are
old enough to expire. There is no way back.

The active coordinator sends it to the region that owns the entity, and logs who
has deleted what and why.`,
		Example: `  roost entity delete Cart/dora --reason "asked for by the customer, ticket 4711"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if b.typ, b.id, err = app.EntityOf(args, "TYPE ID or TYPE/ID, such as Cart/dora"); err != nil {
				return err
			}
			res, err := a.builtin(cmd.Context(), &b)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(map[string]any{"type": b.typ, "id": b.id, "deleted": true, "region": res.Region})
			}
			_, err = fmt.Fprintf(a.Out, "%s/%s is deleted (by %s)\n", b.typ, phrase.Quoted(b.id), res.Region)
			return err
		},
	}
	a.builtinFlags(cmd, &b)
	return cmd
}

// builtinFlags adds the flags of every command that sends a built-in command.
func (a *group) builtinFlags(cmd *cobra.Command, b *builtin) {
	cmd.Flags().StringVar(&b.reason, "reason", "", "why, for the log of the coordinator; it must be given")
	cmd.Flags().StringVar(&b.key, "idempotency-key", "", "the command takes effect at most once per key; default: a new one")
	cmd.Flags().DurationVar(&b.timeout, "timeout", 10*time.Second, "how long to try")
}

// check checks the flags. A reason must be given unless nothing is changed.
func (b *builtin) check(dryRun bool) error {
	switch {
	case strings.TrimSpace(b.reason) == "" && !dryRun:
		return app.Usage(errors.New("--reason is missing; say why, for the log"))
	case b.timeout < time.Millisecond:
		return app.Usage(fmt.Errorf("--timeout is %s; it must be at least 1ms", b.timeout))
	}
	return nil
}

// builtin sends a built-in command. It returns an error for every outcome but success.
func (a *group) builtin(ctx context.Context, b *builtin) (*adminv1.CommandResponse, error) {
	if err := b.check(false); err != nil {
		return nil, err
	}
	if b.key == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		b.key = id.String()
	}
	admin, err := a.AdminClient()
	if err != nil {
		return nil, err
	}
	res, err := admin.Command(ctx, &adminv1.CommandRequest{
		Type: b.typ, Id: b.id, Command: b.command, Payload: b.payload, IdempotencyKey: b.key, Reason: b.reason, By: app.WhoAmI(),
	}, b.timeout)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (it was not applied)", err)
	case res.Outcome == sharding.Executed.String() && res.Code == "":
		return res, nil
	case res.Outcome == sharding.Unknown.String():
		return nil, app.TimedOut(fmt.Errorf("%s (--idempotency-key %s sends it once more, and has it applied once)", res.Message, b.key))
	case res.Outcome == sharding.NotApplied.String():
		return nil, fmt.Errorf("%w (it was not applied)", &entity.Error{Code: entity.Code(res.Code), Message: res.Message, Outcome: entity.NotApplied})
	}
	return nil, &entity.Error{Code: entity.Code(res.Code), Message: res.Message, Outcome: entity.Executed}
}
