package region

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// holdingsHelp describes the columns of the table of regions.
const holdingsHelp = `SHARDS     shards that the region holds, also those that it does not serve yet, or any more
ENTITIES   entities in memory, and MEMORY their size, as far as they tell it
COMMANDS   commands per second
HANDLERS   how long handlers run, in percent of one processor
WAITING    commands that are not answered, on average
JOURNAL    bytes of records per second

Rates are averages in which what was measured 15 s ago (region.load_half_life) counts half. roost shard ls
--entities shows the same of each shard.`

func (a *group) listCommand() *cobra.Command {
	var req adminv1.RegionsRequest
	var timeout app.QueryTimeout
	var types bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List regions with their memory and load", Args: cobra.NoArgs,
		Example: "  roost region ls\n  roost region ls --types\n  roost region ls --type Cart --query-timeout 5s -o json",
		Long: `Lists the entities in memory, the load and the limits of all regions, all types together; with
--types, one line per type.

` + holdingsHelp + ` Regions that do not answer in time are named, and the sums are
without them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.regions(cmd.Context(), &req, &timeout, types)
		},
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "only this entity type")
	cmd.Flags().BoolVar(&types, "types", false, "a line for each type of each region")
	timeout.Flag(cmd)
	return cmd
}

func (a *group) showCommand() *cobra.Command {
	var req adminv1.RegionsRequest
	var timeout app.QueryTimeout
	cmd := &cobra.Command{
		Use: "show REGION", Short: "Show the memory and load of a region", Args: app.OneName,
		Example: "  roost region show region-2\n  roost region show region-2 --type Cart -o json",
		Long: `Asks a region, given by name or address, for its memory and load, with a line for each type.

` + holdingsHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Region = args[0]
			return a.regions(cmd.Context(), &req, &timeout, true)
		},
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "only this entity type")
	timeout.Flag(cmd)
	return cmd
}

// regions asks regions for their memory and load, and prints it.
func (a *group) regions(ctx context.Context, req *adminv1.RegionsRequest, timeout *app.QueryTimeout, types bool) (err error) {
	if req.TimeoutMs, err = timeout.Milliseconds(); err != nil {
		return err
	}
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	res, err := admin.Regions(ctx, req)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintMessage(res)
	}
	return a.printRegions(res, types)
}

func (a *group) printRegions(res *adminv1.RegionsResponse, types bool) error {
	header := []string{"REGION", "SHARDS", "ENTITIES", "MEMORY", "COMMANDS", "HANDLERS", "WAITING", "JOURNAL"}
	right := header[1:]
	if types {
		header = append([]string{"REGION", "TYPE"}, right...)
	}
	var rows [][]any
	line := func(name string, h *adminv1.Holdings) {
		row := []any{phrase.Named(name)}
		if types {
			row = append(row, cmp.Or(h.Type, "(all)"))
		}
		rows = append(rows, append(row, h.Shards, h.Entities, phrase.Mebibytes(h.Bytes), phrase.PerSecond(h.Commands), phrase.Percent(h.Handlers), fmt.Sprintf("%.1f", h.Waiting), kibibytesPerSecond(h.JournalBytes)))
	}
	sum := &adminv1.Holdings{}
	var buffered []string
	for _, r := range res.Regions {
		if types {
			for _, h := range r.Types {
				line(r.Region, h)
			}
		} else {
			line(r.Region, r.All)
		}
		addHoldings(sum, r.All)
		if r.Buffered > 0 {
			buffered = append(buffered, fmt.Sprintf("in %s, %s for shards that it does not serve yet", phrase.Named(r.Region), waitText(r.Buffered)))
		}
	}
	if len(res.Regions) > 1 {
		line("all", sum)
	}
	if len(rows) > 0 {
		if err := a.PrintTable(header, rows, right...); err != nil {
			return err
		}
	}
	lines := buffered
	if len(res.Regions) == 0 && len(res.Silent) == 0 {
		lines = append(lines, "no region is registered")
	}
	for _, s := range res.Silent {
		lines = append(lines, fmt.Sprintf("%s is missing: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
	}
	if len(lines) == 0 {
		return nil
	}
	return a.PrintLines(lines)
}

func waitText(n uint32) string {
	if n == 1 {
		return "1 command waits"
	}
	return fmt.Sprintf("%d commands wait", n)
}

func addHoldings(sum, h *adminv1.Holdings) {
	sum.Shards, sum.Entities, sum.Bytes = sum.Shards+h.Shards, sum.Entities+h.Entities, sum.Bytes+h.Bytes
	sum.Commands, sum.Handlers, sum.Waiting, sum.JournalBytes = sum.Commands+h.Commands, sum.Handlers+h.Handlers, sum.Waiting+h.Waiting, sum.JournalBytes+h.JournalBytes
}

func kibibytesPerSecond(bytes float64) string { return fmt.Sprintf("%.1f KiB/s", bytes/1024) }
