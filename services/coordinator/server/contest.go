package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The active coordinator leaves a sign of life in the journal, so that another
// cluster which was formed on the same journal, with a lease of its own, is
// noticed: their leases do not exclude each other, and each would depose the
// other for ever.

const (
	// signEvery is the time between two signs of life.
	signEvery = time.Second
	// quietFor is how long no sign must come before a journal counts as nobody's:
	// longer than a lease, whose record may have been lost while its holder acts.
	quietFor = 4 * time.Second
)

// signEntity holds one record and a snapshot that is replaced by every sign.
var signEntity = sharding.Entity{Type: streamShard.Type, ID: "active"}

// sign is what is written.
type sign struct {
	Addr string `json:"addr"`
	UID  uint64 `json:"uid,string"`
	Term uint32 `json:"term"`
	N    uint64 `json:"n"`
}

// signs is where the writing stands in this term.
type signs struct {
	n       uint64
	begun   bool // the record is there
	writing bool
	last    time.Time
}

// signLife writes a sign if it is time. One that is not stored is followed by the
// next.
func (s *Server) signLife() {
	if s.gate == nil || s.signs.writing || time.Since(s.signs.last) < signEvery {
		return
	}
	term, epoch := s.term, sharding.MakeEpoch(s.term, 0)
	s.signs.n++
	s.signs.writing, s.signs.last = true, time.Now()
	var op journal.Op
	if s.signs.begun {
		b, err := json.Marshal(sign{Addr: s.self.Addr, UID: uint64(s.self.UID), Term: uint32(term), N: s.signs.n})
		if err != nil {
			s.fail(err)
			return
		}
		op.Snapshot = &journal.WriteSnapshot{Shard: streamShard, Epoch: epoch, Entity: signEntity, Snapshot: journal.Snapshot{Seq: 1, Encoding: sharding.JSON, Payload: b}}
	} else {
		op.Append = &sharding.Append{Shard: streamShard, Epoch: epoch, Entity: signEntity, Records: []sharding.Record{{Seq: 1}}}
	}
	s.journal.Submit(op, func(r journal.Result) {
		s.inbox.put(func() {
			if s.term != term {
				return
			}
			s.signs.writing = false
			switch r.Verdict {
			case sharding.RefusedEpoch:
				s.fenced(r)
			case sharding.Durable, sharding.RefusedSeq: // the record was there
				s.signs.begun = true
			default:
				s.log.Debug("no sign of life was stored, trying again", "verdict", r.Verdict, "error", r.Err)
			}
		})
	})
}

// errContested is wrapped when another cluster uses the journal.
var errContested = errors.New("another cluster uses this journal")

// uncontested waits until nobody leaves signs of life in the journal. An error
// that wraps errContested says that somebody goes on to: two times, because the
// holder of a lease whose record was lost acts until its time is over.
func (s *Server) uncontested(ctx context.Context) error {
	last, err := s.readSign(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		select {
		case <-time.After(quietFor):
		case <-ctx.Done():
			return ctx.Err()
		}
		next, err := s.readSign(ctx)
		if err != nil {
			return err
		}
		if next == last {
			return nil
		}
		last = next
	}
	return fmt.Errorf("%w, also named %q: its active coordinator is at %s, and its lease is not the one that lease.url names here. "+
		"To join that cluster, give this process its lease.url and discovery.url; to run a second one, give it a journal.url and a cluster.name of its own",
		errContested, s.cfg.ClusterName, last.Addr)
}

func (s *Server) readSign(ctx context.Context) (sign, error) {
	found, err := s.journal.Load(ctx, journal.LoadRequest{Entity: signEntity})
	if err != nil {
		return sign{}, fmt.Errorf("reading the sign of life: %w", err)
	}
	var out sign
	if found.Snapshot.Seq > 0 {
		if err := json.Unmarshal(found.Snapshot.Payload, &out); err != nil {
			return sign{}, fmt.Errorf("reading the sign of life: %w", err)
		}
	}
	return out, nil
}
