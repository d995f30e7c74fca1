package journal

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node/progress"
)

// printExamined prints an entity's damage, and the possible repairs.
func (a *group) printExamined(e *journal.RawEntity) error {
	found := e.Examine()
	if a.JSON() {
		return a.PrintJSON(map[string]any{"entity": e.Entity.String(), "last_record": e.LastSeq, "snapshot": e.SnapshotSeq, "life": e.Life, "found": damageOf(found)})
	}
	if len(e.Records) == 0 {
		return a.PrintLines([]string{"nothing is stored of " + phrase.Quoted(e.Entity.String())})
	}
	lines := []string{fmt.Sprintf("%s: %s, the last one is %d%s", phrase.Quoted(e.Entity.String()), phrase.Plural(len(e.Records), "record"), e.LastSeq, snapshotText(e))}
	if len(found) == 0 {
		return a.PrintLines(append(lines, "Nothing is damaged."))
	}
	lines = append(lines, findingLines(found)...)
	return a.PrintLines(append(append(lines, "", "What can be done (each with --dry-run first):"), choices(e, found)...))
}

func snapshotText(e *journal.RawEntity) string {
	if e.SnapshotSeq == 0 {
		return ", no snapshot"
	}
	return fmt.Sprintf(", snapshot at %d", e.SnapshotSeq)
}

func findingLines(found []journal.Finding) []string {
	var lines []string
	for i, f := range found {
		if i == maxShownRecords {
			return append(lines, fmt.Sprintf("  and %d more", len(found)-i))
		}
		effect := "it can be loaded all the same"
		if f.Blocks {
			effect = "it cannot be loaded"
		}
		lines = append(lines, fmt.Sprintf("  damaged     %s: %s; %s", f.Kind, phrase.Printable(f.Err.Error()), effect))
	}
	return lines
}

// choices are the commands that can put right what was found.
func choices(e *journal.RawEntity, found []journal.Finding) []string {
	var lines []string
	entity := phrase.Quoted(e.Entity.String())
	seen := map[string]bool{}
	add := func(args, what string) {
		if line := fmt.Sprintf("  roost journal repair %s\n              %s", args, what); !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	first := uint64(0) // the first record that keeps the entity from being loaded
	for _, f := range found {
		if len(seen) >= maxShownRecords {
			break
		}
		switch f.Kind {
		case journal.DamagedRecord, journal.MissingRecords:
			if f.Blocks && first == 0 {
				first = f.Seq
				add(fmt.Sprintf("record %s --back-to %d", entity, f.Seq-1), fmt.Sprintf("goes back to the state after record %d; %s set aside", f.Seq-1, phrase.Plural(int(e.LastSeq-f.Seq)+1, "record")))
			}
			add(fmt.Sprintf("record %s --skip %d", entity, f.Seq), "sets that record aside and keeps the later ones, if the author of the type confirms that this is right")
		case journal.DamagedReply:
			add(fmt.Sprintf("record %s --reply %d", entity, f.Seq), "gives up the reply; the effect stays")
		case journal.DamagedSnapshot:
			add(fmt.Sprintf("snapshot %s", entity), "has the state made from the events again, if they are all there")
		case journal.DamagedReminder, journal.DamagedRemember, journal.DamagedSends:
			add(fmt.Sprintf("record %s --rows", entity), "removes the reminders, remembered starts and kept sends whose record cannot be read")
		}
	}
	add(fmt.Sprintf("record %s --delete", entity), "deletes the entity")
	return append(lines, "  roost journal restore FILE\n              restores a backup of the whole journal (docs/running/backup.md)")
}

// jsonRepair describes what a repair did, or would do.
type jsonRepair struct {
	Entity   string             `json:"entity"`
	Shard    string             `json:"shard"`
	Repair   journal.RepairKind `json:"repair"`
	DryRun   bool               `json:"dry_run"`
	Records  []jsonRecord       `json:"records_set_aside"`
	Wakes    []jsonWake         `json:"wakeups_removed"`
	Sends    []jsonSends        `json:"sends_removed"`
	Snapshot uint64             `json:"snapshot_dropped,omitempty"`
	File     string             `json:"file,omitempty"`
	SHA256   string             `json:"sha256,omitempty"`
	Region   string             `json:"served_again_by,omitempty"`
	NotYet   string             `json:"not_served_again_yet,omitempty"` // why
	Before   []jsonDamage       `json:"damaged_before"`
	After    []jsonDamage       `json:"damaged_after"`
}

type jsonRecord struct {
	Seq    uint64     `json:"seq"`
	Bytes  int        `json:"bytes"`
	Stored *time.Time `json:"stored,omitempty"`
	Events []string   `json:"events,omitempty"`
	Key    string     `json:"idempotency_key,omitempty"`
	What   string     `json:"damaged,omitempty"`
}

type jsonWake struct {
	Kind string     `json:"kind"`
	Name string     `json:"name,omitempty"`
	Seq  uint64     `json:"seq"`
	Due  *time.Time `json:"due,omitempty"`
}

type jsonSends struct {
	Seq     uint64 `json:"seq"`
	Pending int    `json:"pending"`
	Dead    int    `json:"dead"`
}

func (a *group) printRepair(r *repair, e *journal.RawEntity, p *journal.RepairPlan) error {
	out := jsonRepair{
		Entity: e.Entity.String(), Shard: r.do.Shard.String(), Repair: r.do.Do, DryRun: r.dryRun, Records: []jsonRecord{}, Wakes: []jsonWake{}, Sends: []jsonSends{},
		Snapshot: p.SnapshotSeq, File: r.do.File, SHA256: r.do.SHA256, Region: r.region, Before: damageOf(p.Before), After: damageOf(p.After),
	}
	if r.probe != nil {
		out.NotYet = r.probe.Error()
	}
	for _, rec := range p.SetAside {
		x := jsonRecord{Seq: rec.Seq, Bytes: len(rec.Body) + len(rec.Reply)}
		entry, err := journal.DecodeRecord(e.Entity, rec.Seq, rec.Body)
		if err != nil {
			x.What = err.Error()
		} else {
			x.Stored, x.Key = &entry.At, string(entry.Record.Command)
			for _, ev := range entry.Record.Events {
				x.Events = append(x.Events, ev.Name)
			}
		}
		out.Records = append(out.Records, x)
	}
	for _, w := range p.Wakes {
		out.Wakes = append(out.Wakes, jsonWake{Kind: wakeText(w.Kind), Name: w.Name, Seq: w.Seq, Due: dueTime(&w)})
	}
	for _, s := range p.Sends {
		pending, dead := s.States.Count(sendsOf(e, &s))
		out.Sends = append(out.Sends, jsonSends{s.Seq, pending, dead})
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintLines(out.lines(r, e, p))
}

func (j *jsonRepair) lines(r *repair, e *journal.RawEntity, p *journal.RepairPlan) []string {
	head := fmt.Sprintf("%s is repaired: %s.", phrase.Quoted(j.Entity), doneText(&r.do))
	if j.DryRun {
		head = fmt.Sprintf("%s would be repaired: %s. Nothing was changed.", phrase.Quoted(j.Entity), doneText(&r.do))
	}
	lines := []string{head}
	if r.do.Do == journal.LoseReply {
		lines = append(lines, fmt.Sprintf("  reply       of record %d: it is lost; the effect stays", r.do.Seq))
	} else if n := len(j.Records); n > 0 {
		bytes := 0
		for _, x := range j.Records {
			bytes += x.Bytes
		}
		lines = append(lines, fmt.Sprintf("  set aside   %s, %s", phrase.Plural(n, "record"), progress.Bytes(int64(bytes))))
		for i, x := range j.Records {
			if i == maxShownRecords {
				lines = append(lines, fmt.Sprintf("    and %d more, up to record %d (-o json has all)", n-i, j.Records[n-1].Seq))
				break
			}
			lines = append(lines, "    "+x.text())
		}
	}
	if j.Snapshot > 0 {
		lines = append(lines, fmt.Sprintf("  snapshot    at %d goes, %s", j.Snapshot, progress.Bytes(int64(len(p.Snapshot)))))
	}
	for i, w := range j.Wakes {
		if i == maxShownRecords {
			lines = append(lines, fmt.Sprintf("  reminders   and %d more", len(j.Wakes)-i))
			break
		}
		due := ""
		if w.Due != nil {
			due = ", due " + w.Due.UTC().Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("  %s goes, set by record %d%s", column(w.Kind, phrase.Quoted(w.Name)), w.Seq, due))
	}
	for i, s := range j.Sends {
		if i == maxShownRecords {
			lines = append(lines, fmt.Sprintf("  sends       of %d more records", len(j.Sends)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("  sends       of record %d: %d pending and %d dead letters go", s.Seq, s.Pending, s.Dead))
	}
	if len(j.Records) > 0 && r.do.Do != journal.LoseReply {
		lines = append(lines, "  keys        a repeat of these commands is refused (aborted); delivered sends are not undone")
	}
	if j.File != "" {
		lines = append(lines, fmt.Sprintf("  kept in     %s", j.File))
	}
	if len(j.After) > 0 {
		lines = append(lines, "  still damaged:")
		lines = append(lines, findingLines(p.After)...)
		lines = append(lines, fmt.Sprintf("  roost journal repair record %s shows what can be done", phrase.Quoted(e.Entity.String())))
	} else {
		lines = append(lines, "  afterwards  nothing of it is damaged")
	}
	if !j.DryRun {
		if r.probe != nil {
			lines = append(lines, fmt.Sprintf("  shard       %s is served again when its region notices, by the next command, reminder or send of one of its entities (%v)", j.Shard, r.probe))
		} else {
			lines = append(lines, fmt.Sprintf("  shard       %s is served again, by %s", j.Shard, j.Region))
		}
	}
	return lines
}

// column is a word and a name, in the width of the other lines.
func column(kind, name string) string {
	if name != "" {
		name = " " + name
	}
	return fmt.Sprintf("%-11s", kind) + name
}

func (x *jsonRecord) text() string {
	when := "-"
	if x.Stored != nil {
		when = x.Stored.UTC().Format(time.RFC3339)
	}
	what := x.What
	if what == "" {
		what = "no events"
		if n := len(x.Events); n > 0 {
			what = x.Events[0]
			if n > 1 {
				what += fmt.Sprintf(" and %d more", n-1)
			}
		}
	}
	return fmt.Sprintf("%-6d %s  %s  %s", x.Seq, when, progress.Bytes(int64(x.Bytes)), what)
}

func doneText(r *journal.Repair) string {
	switch r.Do {
	case journal.GoBack:
		return fmt.Sprintf("it goes back to the state after record %d", r.Seq)
	case journal.SkipRecord:
		return fmt.Sprintf("record %d is skipped", r.Seq)
	case journal.LoseReply:
		return fmt.Sprintf("the reply of record %d is given up", r.Seq)
	case journal.DropRows:
		return "what waits for a record that cannot be read is removed"
	case journal.DropReminder:
		return fmt.Sprintf("it has no reminder %s any more", phrase.Quoted(r.Name))
	case journal.RebuildState:
		return "its state is made from its events again"
	case journal.DeleteEntity:
		return "it is deleted"
	}
	return string(r.Do)
}
