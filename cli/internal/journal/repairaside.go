package journal

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// asideLine is a line of the file with what was set aside.
type asideLine struct {
	What   string `json:"what"` // repair, record, snapshot, reminder, remembered start, or sends
	Entity string `json:"entity,omitempty"`
	// Of the repair.
	Repair journal.RepairKind `json:"repair,omitempty"`
	Reason string             `json:"reason,omitempty"`
	By     string             `json:"by,omitempty"`
	At     *time.Time         `json:"at,omitempty"`
	// Of the rest. Body and Reply are the stored forms.
	Seq     uint64        `json:"seq,omitempty"`
	Problem string        `json:"problem,omitempty"`
	Stored  *time.Time    `json:"stored,omitempty"`
	Command string        `json:"idempotency_key,omitempty"`
	Events  []asideEvent  `json:"events,omitempty"`
	Sends   []asideSend   `json:"sends,omitempty"`
	Name    string        `json:"name,omitempty"`
	Due     *time.Time    `json:"due,omitempty"`
	Period  time.Duration `json:"period_ns,omitempty"`
	States  []string      `json:"states,omitempty"`
	Body    []byte        `json:"body,omitempty"`
	Reply   []byte        `json:"reply,omitempty"`
}

type asideEvent struct {
	Name    string          `json:"name"`
	Version uint16          `json:"version,omitempty"`
	JSON    json.RawMessage `json:"json,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"` // content that is not JSON
}

type asideSend struct {
	To      string `json:"to"`
	Command string `json:"command"`
	Payload []byte `json:"payload,omitempty"`
}

// writeAside writes what is set aside to a file, and notes its name and hash.
func (r *repair) writeAside(e *journal.RawEntity, p *journal.RepairPlan) error {
	name, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = writeNew(io.Discard, r.out, func(out io.Writer) error {
		enc := json.NewEncoder(io.MultiWriter(out, sum))
		now := time.Now().UTC()
		if err := enc.Encode(asideLine{What: "repair", Entity: e.Entity.String(), Repair: r.do.Do, Reason: r.do.Reason, By: r.do.By, At: &now}); err != nil {
			return err
		}
		for _, line := range asideLines(e, p) {
			if err := enc.Encode(line); err != nil {
				return err
			}
		}
		return nil
	})
	r.do.File, r.do.SHA256 = name, fmt.Sprintf("%x", sum.Sum(nil))
	return err
}

func asideLines(e *journal.RawEntity, p *journal.RepairPlan) []asideLine {
	var lines []asideLine
	for _, rec := range p.SetAside {
		line := asideLine{What: "record", Seq: rec.Seq, Body: rec.Body, Reply: rec.Reply}
		entry, err := journal.DecodeRecord(e.Entity, rec.Seq, rec.Body)
		if err != nil {
			line.Problem = err.Error()
		} else {
			line.Stored, line.Command = &entry.At, string(entry.Record.Command)
			for _, ev := range entry.Record.Events {
				x := asideEvent{Name: ev.Name, Version: ev.Version}
				if ev.Encoding == sharding.JSON && json.Valid(ev.Payload) {
					x.JSON = ev.Payload
				} else {
					x.Bytes = ev.Payload
				}
				line.Events = append(line.Events, x)
			}
			for _, s := range entry.Record.Sends {
				line.Sends = append(line.Sends, asideSend{To: s.To.String(), Command: s.Input.Command, Payload: s.Input.Payload})
			}
		}
		lines = append(lines, line)
	}
	if p.SnapshotSeq > 0 {
		lines = append(lines, asideLine{What: "snapshot", Seq: p.SnapshotSeq, Body: p.Snapshot})
	}
	for _, w := range p.Wakes {
		lines = append(lines, asideLine{What: wakeText(w.Kind), Seq: w.Seq, Name: w.Name, Due: dueTime(&w), Period: time.Duration(w.Period) * time.Millisecond})
	}
	for _, s := range p.Sends {
		line := asideLine{What: "sends", Seq: s.Seq}
		for place := range sendsOf(e, &s) {
			line.States = append(line.States, s.States.Of(place).String())
		}
		lines = append(lines, line)
	}
	return lines
}

// sendsOf returns the number of sends that a row concerns: if its record cannot be read, as many as the row has room for.
func sendsOf(e *journal.RawEntity, s *journal.RawSends) int {
	for _, r := range e.Records {
		if r.Seq == s.Seq {
			if entry, err := journal.DecodeRecord(e.Entity, r.Seq, r.Body); err == nil {
				return len(entry.Record.Sends)
			}
		}
	}
	return 4 * len(s.States)
}

func wakeText(kind sharding.WakeKind) string {
	if kind == sharding.RememberWake {
		return "remembered start"
	}
	return "reminder"
}

func dueTime(w *journal.RawWake) *time.Time {
	if w.Kind != sharding.ReminderWake {
		return nil
	}
	t := time.UnixMilli(w.Due).UTC()
	return &t
}
