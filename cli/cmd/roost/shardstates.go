package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// shardStates is what "roost shards --entities" does.
func (a *app) shardStates(cmd *cobra.Command, req *adminv1.ShardStatesRequest, l *listed) error {
	if l.limit == 0 {
		return usageError{errors.New("--limit is 0; it must be at least 1")}
	}
	admin, err := a.adminClient()
	if err != nil {
		return err
	}
	all := &adminv1.ShardStatesResponse{}
	err = l.pages(func(after string, limit uint32) (int, string, error) {
		req.After, req.Limit = after, limit
		res, err := admin.ShardStates(cmd.Context(), req)
		if err != nil {
			return 0, "", err
		}
		all.Shards, all.Next, all.Regions = append(all.Shards, res.Shards...), res.Next, max(all.Regions, res.Regions)
		all.Silent = addSilent(all.Silent, res.Silent)
		return len(all.Shards), res.Next, nil
	})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printMessage(all)
	}
	var rows [][]any
	unknown := 0
	for _, s := range all.Shards {
		row := []any{fmt.Sprintf("%s/%d", s.Shard.Type, s.Shard.Index), named(s.Shard.Region), s.Shard.Phase}
		if s.Unknown {
			unknown++
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			h := s.Holdings
			row = append(row, h.Entities, mebibytes(h.Bytes), perSecond(h.Commands), percent(h.Handlers), fmt.Sprintf("%.1f", h.Waiting+float64(s.Buffered)))
		}
		rows = append(rows, row)
	}
	header := []string{"SHARD", "REGION", "PHASE", "ENTITIES", "MEMORY", "COMMANDS", "HANDLERS", "WAITING"}
	if len(rows) > 0 {
		if err := a.printTable(header, rows, header[3:]...); err != nil {
			return err
		}
	}
	return a.printLines(shardStateLines(all, unknown))
}

// shardStateLines is what is below the table of shards.
func shardStateLines(all *adminv1.ShardStatesResponse, unknown int) []string {
	entities := uint64(0)
	for _, s := range all.Shards {
		entities += s.Holdings.GetEntities()
	}
	known := len(all.Shards) - unknown
	lines := []string{fmt.Sprintf("%s in memory in %s", entityCount(entities), plural(known, "shard"))}
	if unknown > 0 {
		lines[0] += fmt.Sprintf("; of %s (-) nothing is known", plural(unknown, "shard"))
	}
	for _, s := range all.Silent {
		lines = append(lines, fmt.Sprintf("%s has not answered: %s", named(s.Region), printable(s.Reason)))
	}
	if all.Next != "" {
		lines = append(lines, "more are left; go on with --after "+all.Next)
	}
	return lines
}

func entityCount(n uint64) string {
	if n == 1 {
		return "1 entity is"
	}
	return strings.TrimSpace(fmt.Sprintf("%d entities are", n))
}
