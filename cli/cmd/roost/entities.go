package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *app) entitiesCommand() *cobra.Command {
	var l listed
	var req adminv1.EntitiesRequest
	var active bool
	var shard int64
	var longer time.Duration
	cmd := &cobra.Command{
		Use: "entities [TYPE]", Short: "List entities that are in memory, or that are stored",
		Long: `Lists entities: those that the regions have in memory (--active, the default), or those that
the journal has records of (--stored).

STATE      active, or loading, stopping, ending (its instance is gone, what it has written is
           not durable yet), settling (whether it is durable is being found out), or damaged
MAILBOX    commands that are not answered, with the one that runs
RUNNING    the command whose turn runs, for how long, and the entity whose answer it waits for
IDLE       how long it has had nothing to do; - if it has, or if that is not measured because
           its strategy of passivation stops no entity
RECORD     the number of its newest durable record

An entity whose turn does not end takes no further command: --running-longer 1s lists these.

Entities in memory are in the order of their types and shards, and in each shard in that of
their ids. Regions that do not answer in time are named, and their entities are missing.
Stored entities are in the order of their types and ids. Those that were deleted are among them
until their records are removed. Of volatile types nothing is stored.

It is read page by page, while the cluster works: an entity that becomes active, or is
stopped, meanwhile may be in the list or not. If there is more than --limit, the last line says
where to go on; so does next in JSON.`,
		Example: "  roost entities Cart --prefix eu-\n  roost entities --running-longer 1s\n  roost entities Cart --shard 17\n  roost entities --stored --region region-2 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && req.Type != "" {
				return usageError{errors.New("the type is given twice, as an argument and by --type")}
			}
			if len(args) == 1 {
				req.Type = args[0]
			}
			switch set := cmd.Flags().Changed; {
			case l.limit == 0:
				return usageError{errors.New("--limit is 0; it must be at least 1")}
			case active && req.Stored:
				return usageError{errors.New("--active cannot be combined with --stored")}
			case req.Stored && set("running-longer"):
				return usageError{errors.New("--running-longer cannot be combined with --stored: turns run in memory")}
			case set("running-longer") && longer < time.Millisecond:
				return usageError{fmt.Errorf("--running-longer is %s; it must be at least 1ms", longer)}
			case set("shard"):
				if shard < 0 || shard > 1<<32-1 {
					return usageError{fmt.Errorf("--shard is %d; see roost shards", shard)}
				}
				if req.Type == "" {
					return usageError{errors.New("--shard is given without a type: each type has shards of its own")}
				}
				index := uint32(shard)
				req.Index = &index
			}
			req.RunningMs = longer.Milliseconds()
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			all := &adminv1.EntitiesResponse{}
			err = l.pages(func(after string, limit uint32) (int, string, error) {
				req.After, req.Limit = after, limit
				res, err := admin.Entities(cmd.Context(), &req)
				if err != nil {
					return 0, "", err
				}
				all.Entities, all.Next, all.Regions = append(all.Entities, res.Entities...), res.Next, res.Regions
				all.Silent = addSilent(all.Silent, res.Silent)
				return len(all.Entities), res.Next, nil
			})
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(all)
			}
			return a.printEntities(&req, all)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Type, "type", "", "only this entity type")
	flags.StringVar(&req.Prefix, "prefix", "", "only entities whose ids begin with this")
	flags.Int64Var(&shard, "shard", 0, "only this shard of the type")
	flags.StringVar(&req.Region, "region", "", "only entities in shards of this region")
	flags.BoolVar(&active, "active", false, "those in memory; this is the default")
	flags.BoolVar(&req.Stored, "stored", false, "those that are stored")
	flags.DurationVar(&longer, "running-longer", 0, "only entities of which a turn has been running for so long")
	flags.Uint32Var(&l.limit, "limit", 1000, "how many to list")
	flags.StringVar(&l.after, "after", "", "go on where the listing before ended, as it says")
	return cmd
}

// addSilent adds the regions that have not answered for a page. A region is named once.
func addSilent(all, page []*adminv1.Silent) []*adminv1.Silent {
	named := map[string]bool{}
	for _, s := range all {
		named[s.Region] = true
	}
	for _, s := range page {
		if !named[s.Region] {
			all = append(all, s)
		}
	}
	return all
}

func (a *app) printEntities(req *adminv1.EntitiesRequest, res *adminv1.EntitiesResponse) error {
	header, right := []string{"ENTITY", "SHARD", "REGION", "STATE", "MAILBOX", "RUNNING", "IDLE", "RECORD"}, []string{"MAILBOX", "RECORD"}
	if req.Stored {
		header, right = header[:3], nil
	}
	var rows [][]any
	for _, e := range res.Entities {
		row := []any{named(e.Type + "/" + e.Id), fmt.Sprintf("%s/%d", e.Type, e.Index), named(orDash(e.Region))}
		if !req.Stored {
			row = append(row, e.State, e.Mailbox, runningText(e), forSoLong(e.IdleMs), e.Record)
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		if err := a.printTable(header, rows, right...); err != nil {
			return err
		}
	}
	var lines []string
	switch {
	case len(rows) > 0 || res.Next != "":
	case req.Stored:
		lines = append(lines, "nothing is stored of such entities")
	default:
		lines = append(lines, fmt.Sprintf("no such entity is in memory in the %s that answered", plural(int(res.Regions), "region")))
	}
	for _, s := range res.Silent {
		lines = append(lines, fmt.Sprintf("the entities of %s are missing: %s", named(s.Region), printable(s.Reason)))
	}
	if res.Next != "" {
		lines = append(lines, "more are left; go on with --after "+res.Next)
	}
	if lines == nil {
		return nil
	}
	return a.printLines(lines)
}

// runningText says what runs, for how long, and what it waits for.
func runningText(e *adminv1.Entity) string {
	if e.Running == "" {
		return "-"
	}
	text := named(e.Running) + " for " + forSoLong(e.RunningMs)
	if e.WaitsForType != "" {
		text += ", waits for " + named(e.WaitsForType+"/"+e.WaitsForId)
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
