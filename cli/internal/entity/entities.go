package entity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const entitiesHelp = `Lists entities: those that the regions have in memory (--active, the default), or those that
the journal has records of (--stored).

STATE      active, or loading, stopping, ending (its instance is gone, but what it wrote is not
           durable yet), settling (it is being found out whether that is durable), or damaged
MAILBOX    commands that are not answered, including the one that runs
RUNNING    the command whose turn runs, for how long, and the entity whose answer it waits for
IDLE       how long the entity has had nothing to do; - if it has something to do, or if its
           strategy of passivation stops no entity, so that this is not measured
RECORD     the number of its newest durable record

An entity whose turn does not end executes no other command: --running-longer 1s lists such
entities.

Entities in memory are ordered by type, shard and id. Regions that do not answer in time are
named, and their entities are missing. Stored entities are ordered by type and id. Deleted
entities are listed until their records are removed. Nothing is stored of volatile types.

The list is read page by page while the cluster works, so an entity that becomes active or is
stopped meanwhile may be missing. If there are more than --limit, the last line (in JSON, next)
has the value for --after.`

// entities holds the flags of "roost entity ls".
type entities struct {
	app.Listed
	req    adminv1.EntitiesRequest
	active bool
	shard  int64
	longer time.Duration
}

func (a *group) listCommand() *cobra.Command {
	var e entities
	cmd := &cobra.Command{
		Use: "ls [TYPE]", Short: "List entities, in memory or stored", Long: entitiesHelp, Args: cobra.MaximumNArgs(1),
		Example: "  roost entity ls Cart --prefix eu-\n  roost entity ls --running-longer 1s\n  roost entity ls Cart --shard 17\n  roost entity ls --stored --region region-2 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.check(cmd, args); err != nil {
				return err
			}
			all, err := a.listEntities(cmd.Context(), &e)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(all)
			}
			return a.printEntities(&e.req, all)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&e.req.Type, "type", "", "only this entity type")
	flags.StringVar(&e.req.Prefix, "prefix", "", "only entities whose ids begin with this")
	flags.Int64Var(&e.shard, "shard", 0, "only this shard of the type")
	flags.StringVar(&e.req.Region, "region", "", "only entities in shards of this region")
	flags.BoolVar(&e.active, "active", false, "those in memory; this is the default")
	flags.BoolVar(&e.req.Stored, "stored", false, "those that are stored")
	flags.DurationVar(&e.longer, "running-longer", 0, "only entities with a turn that has been running for so long")
	flags.Uint32Var(&e.Limit, "limit", 1000, "how many to list")
	flags.StringVar(&e.After, "after", "", "go on where the listing before ended, as it says")
	return cmd
}

// check checks the flags and the argument, and completes the request.
func (e *entities) check(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && e.req.Type != "" {
		return app.Usage(errors.New("the type is given twice, as an argument and by --type"))
	}
	if len(args) == 1 {
		e.req.Type = args[0]
	}
	switch set := cmd.Flags().Changed; {
	case e.Limit == 0:
		return app.Usage(errors.New("--limit is 0; it must be at least 1"))
	case e.active && e.req.Stored:
		return app.Usage(errors.New("--active cannot be combined with --stored"))
	case e.req.Stored && set("running-longer"):
		return app.Usage(errors.New("--running-longer cannot be combined with --stored: turns run in memory"))
	case set("running-longer") && e.longer < time.Millisecond:
		return app.Usage(fmt.Errorf("--running-longer is %s; it must be at least 1ms", e.longer))
	case set("shard") && (e.shard < 0 || e.shard > math.MaxUint32):
		return app.Usage(fmt.Errorf("--shard is %d; see roost shard ls", e.shard))
	case set("shard") && e.req.Type == "":
		return app.Usage(errors.New("--shard is given without a type: each type has shards of its own"))
	case set("shard"):
		index := uint32(e.shard)
		e.req.Index = &index
	}
	e.req.RunningMs = e.longer.Milliseconds()
	return nil
}

// listEntities asks for pages until all entities are listed, or as many as were asked for.
func (a *group) listEntities(ctx context.Context, e *entities) (*adminv1.EntitiesResponse, error) {
	admin, err := a.AdminClient()
	if err != nil {
		return nil, err
	}
	all := &adminv1.EntitiesResponse{}
	err = e.Pages(func(after string, limit uint32) (int, string, error) {
		e.req.After, e.req.Limit = after, limit
		res, err := admin.Entities(ctx, &e.req)
		if err != nil {
			return 0, "", err
		}
		all.Entities, all.Next, all.Regions = append(all.Entities, res.Entities...), res.Next, res.Regions
		all.Silent = app.AddSilent(all.Silent, res.Silent)
		return len(all.Entities), res.Next, nil
	})
	return all, err
}

func (a *group) printEntities(req *adminv1.EntitiesRequest, res *adminv1.EntitiesResponse) error {
	header, right := []string{"ENTITY", "SHARD", "REGION", "STATE", "MAILBOX", "RUNNING", "IDLE", "RECORD"}, []string{"MAILBOX", "RECORD"}
	if req.Stored {
		header, right = header[:3], nil
	}
	var rows [][]any
	for _, e := range res.Entities {
		row := []any{phrase.Named(e.Type + "/" + e.Id), fmt.Sprintf("%s/%d", e.Type, e.Index), phrase.Named(phrase.OrDash(e.Region))}
		if !req.Stored {
			row = append(row, e.State, e.Mailbox, runningText(e), forSoLong(e.IdleMs), e.Record)
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		if err := a.PrintTable(header, rows, right...); err != nil {
			return err
		}
	}
	var lines []string
	switch {
	case len(rows) > 0 || res.Next != "":
	case req.Stored:
		lines = append(lines, "nothing is stored of such entities")
	default:
		lines = append(lines, fmt.Sprintf("no such entity is in memory in the %s that answered", phrase.Plural(int(res.Regions), "region")))
	}
	for _, s := range res.Silent {
		lines = append(lines, fmt.Sprintf("the entities of %s are missing: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
	}
	if res.Next != "" {
		lines = append(lines, "more are left; go on with --after "+res.Next)
	}
	if lines == nil {
		return nil
	}
	return a.PrintLines(lines)
}

// runningText describes what runs, for how long, and what it waits for.
func runningText(e *adminv1.Entity) string {
	if e.Running == "" {
		return "-"
	}
	text := phrase.Named(e.Running) + " for " + forSoLong(e.RunningMs)
	if e.WaitsForType != "" {
		text += ", waits for " + phrase.Named(e.WaitsForType+"/"+e.WaitsForId)
	}
	return text
}

// forSoLong writes a number of milliseconds, with as much of it as matters.
func forSoLong(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case ms == 0:
		return "-"
	case d >= time.Minute:
		d = d.Truncate(time.Second)
	case d >= time.Second:
		d = d.Truncate(100 * time.Millisecond)
	}
	return d.String()
}
