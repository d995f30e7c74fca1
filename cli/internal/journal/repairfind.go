package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/factrepair"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/progress"
	"github.com/roost-cluster/roost/libs/sharding"
)

// listedRepair is an audit line with its number.
type listedRepair struct {
	Number uint64 `json:"number,omitempty"` // 0: of the coordinators' facts
	journal.RepairLine
	Problem string `json:"problem,omitempty"`
}

func (a *group) repairListCommand() *cobra.Command {
	var f journalFlags
	var limit int
	cmd := &cobra.Command{
		Use: "ls", Short: "List repairs", Args: cobra.NoArgs,
		Long: `Lists the repairs of entities and of the coordinators' facts, the newest first: who
has done what, when and why, and which file has what was set aside. The lines are in the
journal, each stored with the changes of the repair. Of the facts, the last 16
repairs are kept. A user of PostgreSQL needs no more than the role roost_reader.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return app.Usage(fmt.Errorf("--limit is %d; it must be at least 1", limit))
			}
			at, err := a.journalAt(&f)
			if err != nil {
				return err
			}
			return journalError(a.listRepairs(cmd.Context(), at, limit))
		},
	}
	f.add(cmd, "URL of the journal; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many to list")
	return cmd
}

func (a *group) listRepairs(ctx context.Context, at journalopen.At, limit int) error {
	reader, err := journalopen.Reader(ctx, at, journal.DefaultConfig())
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // it has written nothing
	h, err := reader.History(ctx, journal.HistoryRequest{Entity: journal.RepairsEntity, Limit: limit, Bytes: journal.MaxRepairBytes})
	if err != nil {
		return err
	}
	// The facts may be damaged again. Then their repairs may not be known, but the repairs of entities still are.
	facts, unread := factrepair.Check(ctx, reader, 0)
	lines := make([]listedRepair, len(h.Records))
	for i := range h.Records {
		rec, err := &h.Records[i], h.Records[i].Err
		lines[i].Number = rec.Seq
		if err == nil {
			lines[i].RepairLine, err = journal.DecodeRepairLine(&rec.Record)
		}
		if err != nil {
			lines[i].Problem = err.Error()
		}
	}
	if unread == nil {
		for _, r := range facts.Repairs {
			lines = append(lines, listedRepair{RepairLine: ofFacts(r)})
		}
	}
	slices.SortStableFunc(lines, func(x, y listedRepair) int { return y.At.Compare(x.At) })
	if lines = lines[:min(len(lines), limit)]; unread != nil {
		lines = append(lines, listedRepair{Problem: "the repairs of the coordinators' facts cannot be read: " + unread.Error()})
	}
	return a.printRepairs(lines)
}

func (a *group) printRepairs(lines []listedRepair) error {
	if a.JSON() {
		return a.PrintJSON(map[string]any{"repairs": lines})
	}
	if len(lines) == 0 {
		return a.PrintLines([]string{"nothing was repaired"})
	}
	var rows [][]any
	for _, l := range lines {
		if l.Problem != "" {
			rows = append(rows, []any{"-", "-", phrase.Printable(l.Problem), "-", "-", "-"})
			continue
		}
		rows = append(rows, []any{l.At.UTC().Format(time.RFC3339), phrase.Quoted(l.Entity), phrase.Printable(l.Did), phrase.OrDash(phrase.Printable(l.File)), phrase.OrDash(phrase.Printable(l.By)), phrase.Printable(l.Reason)})
	}
	return a.PrintTable([]string{"TIME", "ENTITY", "DID", "SET ASIDE IN", "BY", "REASON"}, rows)
}

// ofFacts is the line of a repair of the coordinators' facts.
func ofFacts(r factstream.Repaired) journal.RepairLine {
	did := "repaired the facts, " + phrase.Plural(r.Damaged, "thing") + " damaged"
	if r.All {
		did += ", and dropped all that can be made anew"
	}
	return journal.RepairLine{At: r.At, Entity: wire.FactsEntity.String(), Did: did, By: r.By, Reason: r.Reason, Last: r.Record}
}

// foundDamage is an entity with damaged data.
type foundDamage struct {
	Entity string       `json:"entity"`
	Found  []jsonDamage `json:"found"`
}

type jsonDamage struct {
	Kind   journal.FindingKind `json:"kind"`
	Seq    uint64              `json:"seq,omitempty"`
	To     uint64              `json:"to,omitempty"`
	Name   string              `json:"name,omitempty"`
	What   string              `json:"what"`
	Blocks bool                `json:"blocks"`
}

func damageOf(found []journal.Finding) []jsonDamage {
	out := make([]jsonDamage, len(found))
	for i, f := range found {
		out[i] = jsonDamage{Kind: f.Kind, Seq: f.Seq, To: f.To, Name: f.Name, What: f.Err.Error(), Blocks: f.Blocks}
	}
	return out
}

func (a *group) repairFindCommand() *cobra.Command {
	var f journalFlags
	var typ string
	cmd := &cobra.Command{
		Use: "find", Short: "List entities with damaged data", Args: cobra.NoArgs,
		Long: fmt.Sprintf(`Reads all that is stored of every entity, and lists the entities with data that does not
match its checksum, or is missing: records of earlier lives and before the snapshot, and stored replies, too.
It only reads, and can run while the cluster does; it lists
%d entities and counts the rest. It does not know the code of the types: roost journal
check lists what a region binary cannot read. A user of PostgreSQL needs no more than
the role roost_reader.

Exit codes: 0 nothing is damaged, 1 something is.`, maxFound),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := a.journalAt(&f)
			if err != nil {
				return err
			}
			return journalError(a.findDamage(cmd.Context(), at, sharding.EntityType(typ)))
		},
	}
	f.add(cmd, "URL of the journal; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	cmd.Flags().StringVar(&typ, "type", "", "entities of this type only")
	return cmd
}

func (a *group) findDamage(ctx context.Context, at journalopen.At, typ sharding.EntityType) error {
	reader, err := journalopen.Reader(ctx, at, journal.DefaultConfig())
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // it has written nothing
	bar := progress.New(a.Err, "looked at", progress.Plain)
	var found []foundDamage
	looked, damaged := 0, 0
	for after := (sharding.Entity{}); ; {
		page, err := reader.List(ctx, journal.ListRequest{Type: typ, After: after, Limit: findPage})
		if err != nil {
			return err
		}
		for _, id := range page {
			after = id
			if sharding.CheckEntityType("type", id.Type) != nil {
				continue // Roost's own
			}
			looked++
			bar.Show(int64(looked), int64(looked))
			raw, err := reader.(journal.RawReader).Raw(ctx, id)
			damage := damageOf(raw.Examine())
			if errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrTooLarge) {
				damage, err = []jsonDamage{{Kind: "entity", What: err.Error(), Blocks: errors.Is(err, journal.ErrCorrupt)}}, nil
			}
			if err != nil {
				return err
			}
			if len(damage) > 0 {
				if damaged++; len(found) < maxFound {
					found = append(found, foundDamage{id.String(), damage})
				}
			}
		}
		if len(page) < findPage {
			break
		}
	}
	bar.End()
	if err := a.printFound(found, looked, damaged); err != nil || damaged == 0 {
		return err
	}
	return app.ToolStatus(app.ExitFailed)
}

func (a *group) printFound(found []foundDamage, looked, damaged int) error {
	if a.JSON() {
		return a.PrintJSON(map[string]any{"looked_at": looked, "damaged": damaged, "entities": found})
	}
	if len(found) > 0 {
		var rows [][]any
		for _, e := range found {
			for i, d := range e.Found {
				if i == maxShownRecords {
					rows = append(rows, []any{phrase.Quoted(e.Entity), "-", fmt.Sprintf("and %d more", len(e.Found)-i), ""})
					break
				}
				effect := "yes"
				if d.Blocks {
					effect = "no"
				}
				rows = append(rows, []any{phrase.Quoted(e.Entity), effect, d.Kind, phrase.Printable(d.What)})
			}
		}
		if err := a.PrintTable([]string{"ENTITY", "LOADS", "DAMAGED", "WHAT"}, rows); err != nil {
			return err
		}
	}
	last := damagedText(damaged, looked)
	if damaged > len(found) {
		last += fmt.Sprintf("; the first %d are listed", len(found))
	}
	if damaged > 0 {
		last += "; roost journal repair record TYPE/ID shows what can be done"
	}
	return a.PrintLines([]string{last})
}

// damagedText returns how many of the examined entities are damaged.
func damagedText(damaged, looked int) string {
	verb := "are"
	if damaged == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s %s damaged", damaged, phrase.Plural(looked, "entity"), verb)
}
