package shard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// shardStates runs "roost shard ls --entities".
func (a *group) shardStates(cmd *cobra.Command, req *adminv1.ShardStatesRequest, l *app.Listed) error {
	if l.Limit == 0 {
		return app.Usage(errors.New("--limit is 0; it must be at least 1"))
	}
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	all := &adminv1.ShardStatesResponse{}
	err = l.Pages(func(after string, limit uint32) (int, string, error) {
		req.After, req.Limit = after, limit
		res, err := admin.ShardStates(cmd.Context(), req)
		if err != nil {
			return 0, "", err
		}
		all.Shards, all.Next, all.Regions = append(all.Shards, res.Shards...), res.Next, max(all.Regions, res.Regions)
		all.Silent = app.AddSilent(all.Silent, res.Silent)
		return len(all.Shards), res.Next, nil
	})
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintMessage(all)
	}
	var rows [][]any
	unknown := 0
	for _, s := range all.Shards {
		row := []any{fmt.Sprintf("%s/%d", s.Shard.Type, s.Shard.Index), phrase.Named(s.Shard.Region), s.Shard.Phase}
		if s.Unknown {
			unknown++
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			h := s.Holdings
			row = append(row, h.Entities, phrase.Mebibytes(h.Bytes), phrase.PerSecond(h.Commands), phrase.Percent(h.Handlers), fmt.Sprintf("%.1f", h.Waiting+float64(s.Buffered)))
		}
		rows = append(rows, row)
	}
	header := []string{"SHARD", "REGION", "PHASE", "ENTITIES", "MEMORY", "COMMANDS", "HANDLERS", "WAITING"}
	if len(rows) > 0 {
		if err := a.PrintTable(header, rows, header[3:]...); err != nil {
			return err
		}
	}
	return a.PrintLines(shardStateLines(all, unknown))
}

// shardStateLines returns the lines below the table of shards.
func shardStateLines(all *adminv1.ShardStatesResponse, unknown int) []string {
	entities := uint64(0)
	for _, s := range all.Shards {
		entities += s.Holdings.GetEntities()
	}
	known := len(all.Shards) - unknown
	lines := []string{fmt.Sprintf("%s in memory in %s", entityCount(entities), phrase.Plural(known, "shard"))}
	if unknown > 0 {
		lines[0] += fmt.Sprintf("; of %s (-) nothing is known", phrase.Plural(unknown, "shard"))
	}
	for _, s := range all.Silent {
		lines = append(lines, fmt.Sprintf("%s has not answered: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
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
