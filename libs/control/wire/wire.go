// Package wire is the codec of package control: it converts its messages to messages of roost.control.v1.
// No other package of Roost knows both forms.
//
// # What this does not do
//
// It does not validate names and numbers: the core that gets a message ignores or
// refuses invalid ones.
package wire

import (
	"errors"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// ErrUnknownKind is returned for a message of no kind that is known here. It may come
// from a newer version.
var ErrUnknownKind = errors.New("a control message of an unknown kind, or of none")

// Encode writes a message.
func Encode(m control.Message) *controlv1.Message {
	switch m := m.(type) {
	case control.WatchTable:
		return &controlv1.Message{Kind: &controlv1.Message_WatchTable{WatchTable: &controlv1.WatchTable{Version: toVersion(m.Version), Copy: m.Copy, Card: toCard(m.Card)}}}
	case control.TableChanged:
		return &controlv1.Message{Kind: &controlv1.Message_TableChanged{TableChanged: toDelta(m.Delta)}}
	case control.NotActive:
		return &controlv1.Message{Kind: &controlv1.Message_NotActive{NotActive: &controlv1.NotActive{Active: toOwner(m.Active), Term: uint32(m.Term)}}}
	case control.Register:
		r := &controlv1.Register{Name: m.Name, Version: m.Version, LastTerm: uint32(m.Last), JournalGeneration: uint64(m.Journal.Generation), Zone: m.Zone, Capacity: m.Capacity}
		r.Types = toTypes(m.Types)
		for _, l := range m.Labels {
			r.Labels = append(r.Labels, &controlv1.Label{Name: l.Name, Value: l.Value})
		}
		r.Crash = toCrash(m.Crash)
		if m.Journal.Known {
			r.JournalCluster = (*uint64)(&m.Journal.Cluster)
		}
		return &controlv1.Message{Kind: &controlv1.Message_Register{Register: r}}
	case control.RegisterAck:
		return &controlv1.Message{Kind: &controlv1.Message_RegisterAck{RegisterAck: &controlv1.RegisterAck{Term: uint32(m.Term), Refusal: m.Refusal}}}
	case control.GracefulShutdown:
		return &controlv1.Message{Kind: &controlv1.Message_GracefulShutdown{GracefulShutdown: &controlv1.GracefulShutdown{}}}
	case control.ShutdownAck:
		return &controlv1.Message{Kind: &controlv1.Message_ShutdownAck{ShutdownAck: &controlv1.ShutdownAck{Term: uint32(m.Term), Remaining: uint32(m.Remaining)}}}
	case control.CountDue:
		return &controlv1.Message{Kind: &controlv1.Message_CountDue{CountDue: &controlv1.CountDue{}}}
	case control.DueAck:
		return &controlv1.Message{Kind: &controlv1.Message_DueAck{DueAck: &controlv1.DueAck{Term: uint32(m.Term), Due: uint32(m.Due)}}}
	case control.ReportLoad:
		r := &controlv1.ReportLoad{Number: m.Number, Full: m.Full, Rest: toLoad(m.Rest), Node: &controlv1.NodeLoad{
			Processors: m.Node.Processors, MilliGc: m.Node.MilliGC, MemoryUsed: m.Node.MemoryUsed, MemoryLimit: m.Node.MemoryLimit,
		}}
		for _, s := range m.Shards {
			r.Shards = append(r.Shards, &controlv1.ShardLoad{Type: string(s.Shard.Type), Index: s.Shard.Index, Load: toLoad(s.Load)})
		}
		return &controlv1.Message{Kind: &controlv1.Message_ReportLoad{ReportLoad: r}}
	case control.LoadAck:
		return &controlv1.Message{Kind: &controlv1.Message_LoadAck{LoadAck: &controlv1.LoadAck{Term: uint32(m.Term)}}}
	case control.JournalReport:
		return &controlv1.Message{Kind: &controlv1.Message_JournalReport{JournalReport: &controlv1.JournalReport{Number: m.Number, State: toJournalState(m.State)}}}
	case control.GetShardHome:
		return &controlv1.Message{Kind: &controlv1.Message_GetShardHome{GetShardHome: &controlv1.GetShardHome{Shard: ToShard(m.Shard), Refused: uint64(m.Refused)}}}
	case control.FindShards:
		f := &controlv1.FindShards{}
		for _, s := range m.Shards {
			f.Shards = append(f.Shards, ToShard(s))
		}
		return &controlv1.Message{Kind: &controlv1.Message_FindShards{FindShards: f}}
	case control.ShardsFound:
		f := &controlv1.ShardsFound{}
		for _, r := range m.Rows {
			f.Rows = append(f.Rows, ToRow(r))
		}
		return &controlv1.Message{Kind: &controlv1.Message_ShardsFound{ShardsFound: f}}
	case control.HostShard:
		return &controlv1.Message{Kind: &controlv1.Message_HostShard{HostShard: &controlv1.HostShard{
			Term: uint32(m.Term), Shard: ToShard(m.Shard), Epoch: uint64(m.Epoch), Previous: toPrevious(m.Previous), Released: m.Released, Table: toOptionalVersion(m.Table),
		}}}
	case control.ShardStarted:
		return &controlv1.Message{Kind: &controlv1.Message_ShardStarted{ShardStarted: &controlv1.ShardStarted{Shard: ToShard(m.Shard), Epoch: uint64(m.Epoch)}}}
	case control.HostRefused:
		h := &controlv1.HostRefused{Shard: ToShard(m.Shard), Epoch: uint64(m.Epoch), Above: uint64(m.Above)}
		if m.Row.Epoch > 0 {
			h.Row = ToRow(m.Row)
		}
		return &controlv1.Message{Kind: &controlv1.Message_HostRefused{HostRefused: h}}
	case control.HandOff:
		return &controlv1.Message{Kind: &controlv1.Message_HandOff{HandOff: &controlv1.HandOff{
			Term: uint32(m.Term), Shard: ToShard(m.Shard), Epoch: uint64(m.Epoch), Successor: toOwner(m.Successor), Next: uint64(m.Next),
			Table: toOptionalVersion(m.Table),
		}}}
	case control.ShardStopped:
		return &controlv1.Message{Kind: &controlv1.Message_ShardStopped{ShardStopped: &controlv1.ShardStopped{
			Shard: ToShard(m.Shard), Epoch: uint64(m.Epoch), Wrote: []byte(m.Wrote), Keeps: m.Keeps,
		}}}
	}
	return &controlv1.Message{} // refused by every receiver
}

// Decode reads a message.
func Decode(w *controlv1.Message) (control.Message, error) {
	switch k := w.GetKind().(type) {
	case *controlv1.Message_WatchTable:
		return control.WatchTable{Version: fromVersion(k.WatchTable.GetVersion()), Copy: k.WatchTable.GetCopy(), Card: fromCard(k.WatchTable.GetCard())}, nil
	case *controlv1.Message_TableChanged:
		return control.TableChanged{Delta: fromDelta(k.TableChanged)}, nil
	case *controlv1.Message_NotActive:
		return control.NotActive{Active: FromNode(k.NotActive.GetActive()), Term: sharding.Term(k.NotActive.GetTerm())}, nil
	case *controlv1.Message_Register:
		r := k.Register
		m := control.Register{
			Name: r.GetName(), Types: fromTypes(r.GetTypes()), Version: r.GetVersion(), Last: sharding.Term(r.GetLastTerm()),
			Zone: r.GetZone(), Capacity: r.GetCapacity(), Labels: slices.Grow([]control.Label(nil), len(r.GetLabels())),
		}
		for _, l := range r.GetLabels() {
			m.Labels = append(m.Labels, control.Label{Name: l.GetName(), Value: l.GetValue()})
		}
		if r != nil && r.JournalCluster != nil {
			m.Journal = control.JournalOwner{Known: true, Cluster: sharding.ClusterID(*r.JournalCluster)}
		}
		m.Journal.Generation = sharding.Generation(r.GetJournalGeneration())
		m.Crash = fromCrash(r.GetCrash())
		return m, nil
	case *controlv1.Message_RegisterAck:
		return control.RegisterAck{Term: sharding.Term(k.RegisterAck.GetTerm()), Refusal: k.RegisterAck.GetRefusal()}, nil
	case *controlv1.Message_GracefulShutdown:
		return control.GracefulShutdown{}, nil
	case *controlv1.Message_ShutdownAck:
		return control.ShutdownAck{Term: sharding.Term(k.ShutdownAck.GetTerm()), Remaining: int(k.ShutdownAck.GetRemaining())}, nil
	case *controlv1.Message_CountDue:
		return control.CountDue{}, nil
	case *controlv1.Message_DueAck:
		return control.DueAck{Term: sharding.Term(k.DueAck.GetTerm()), Due: int(k.DueAck.GetDue())}, nil
	case *controlv1.Message_ReportLoad:
		r, n := k.ReportLoad, k.ReportLoad.GetNode()
		m := control.ReportLoad{
			Number: r.GetNumber(), Full: r.GetFull(), Shards: slices.Grow([]control.ShardLoad(nil), len(r.GetShards())), Rest: fromLoad(r.GetRest()),
			Node: control.NodeLoad{Processors: n.GetProcessors(), MilliGC: n.GetMilliGc(), MemoryUsed: n.GetMemoryUsed(), MemoryLimit: n.GetMemoryLimit()},
		}
		for _, s := range r.GetShards() {
			m.Shards = append(m.Shards, control.ShardLoad{Shard: sharding.ShardID{Type: sharding.EntityType(s.GetType()), Index: s.GetIndex()}, Load: fromLoad(s.GetLoad())})
		}
		return m, nil
	case *controlv1.Message_LoadAck:
		return control.LoadAck{Term: sharding.Term(k.LoadAck.GetTerm())}, nil
	case *controlv1.Message_JournalReport:
		return control.JournalReport{Number: k.JournalReport.GetNumber(), State: fromJournalState(k.JournalReport.GetState())}, nil
	case *controlv1.Message_GetShardHome:
		return control.GetShardHome{Shard: FromShard(k.GetShardHome.GetShard()), Refused: sharding.Epoch(k.GetShardHome.GetRefused())}, nil
	case *controlv1.Message_FindShards:
		m := control.FindShards{Shards: slices.Grow([]sharding.ShardID(nil), len(k.FindShards.GetShards()))}
		for _, s := range k.FindShards.GetShards() {
			m.Shards = append(m.Shards, FromShard(s))
		}
		return m, nil
	case *controlv1.Message_ShardsFound:
		m := control.ShardsFound{Rows: slices.Grow([]sharding.Row(nil), len(k.ShardsFound.GetRows()))}
		for _, r := range k.ShardsFound.GetRows() {
			m.Rows = append(m.Rows, FromRow(r))
		}
		return m, nil
	case *controlv1.Message_HostShard:
		h := k.HostShard
		return control.HostShard{
			Term: sharding.Term(h.GetTerm()), Shard: FromShard(h.GetShard()), Epoch: sharding.Epoch(h.GetEpoch()), Previous: fromPrevious(h.GetPrevious()),
			Released: h.GetReleased(), Table: fromVersion(h.GetTable()),
		}, nil
	case *controlv1.Message_ShardStarted:
		return control.ShardStarted{Shard: FromShard(k.ShardStarted.GetShard()), Epoch: sharding.Epoch(k.ShardStarted.GetEpoch())}, nil
	case *controlv1.Message_HostRefused:
		h := k.HostRefused
		m := control.HostRefused{Shard: FromShard(h.GetShard()), Epoch: sharding.Epoch(h.GetEpoch()), Above: sharding.Epoch(h.GetAbove())}
		if h.GetRow() != nil {
			m.Row = FromRow(h.GetRow())
		}
		return m, nil
	case *controlv1.Message_HandOff:
		h := k.HandOff
		return control.HandOff{
			Term: sharding.Term(h.GetTerm()), Shard: FromShard(h.GetShard()), Epoch: sharding.Epoch(h.GetEpoch()),
			Successor: FromNode(h.GetSuccessor()), Next: sharding.Epoch(h.GetNext()), Table: fromVersion(h.GetTable()),
		}, nil
	case *controlv1.Message_ShardStopped:
		h := k.ShardStopped
		return control.ShardStopped{
			Shard: FromShard(h.GetShard()), Epoch: sharding.Epoch(h.GetEpoch()), Wrote: sharding.MakeFormSet(h.GetWrote()), Keeps: h.GetKeeps(),
		}, nil
	}
	return nil, ErrUnknownKind
}

func toCard(c control.Card) *controlv1.Card {
	if c.Span <= 0 {
		return nil
	}
	return &controlv1.Card{Management: c.Management, Peers: c.Peers, SpanNs: uint64(c.Span), Commands: c.Commands, Refused: c.Refused, Latencies: []byte(c.Latencies)}
}

func fromCard(c *controlv1.Card) control.Card {
	if int64(c.GetSpanNs()) <= 0 {
		return control.Card{}
	}
	return control.Card{
		Management: c.GetManagement(), Peers: c.GetPeers(), Span: time.Duration(c.GetSpanNs()),
		Commands: c.GetCommands(), Refused: c.GetRefused(), Latencies: latency.Sketch(c.GetLatencies()),
	}
}

func toPrevious(p control.Previous) *controlv1.Previous {
	if p == (control.Previous{}) {
		return nil
	}
	return &controlv1.Previous{Owner: ToNode(p.Owner), Epoch: uint64(p.Epoch)}
}

func fromPrevious(p *controlv1.Previous) control.Previous {
	return control.Previous{Owner: FromNode(p.GetOwner()), Epoch: sharding.Epoch(p.GetEpoch())}
}

// EncodeAll writes messages in their order.
func EncodeAll(msgs []control.Message) []*controlv1.Message {
	out := make([]*controlv1.Message, len(msgs))
	for i, m := range msgs {
		out[i] = Encode(m)
	}
	return out
}

// DecodeAll reads messages in their order. It leaves out messages of unknown kinds, which a newer process
// may send, and returns their number.
func DecodeAll(list []*controlv1.Message) (msgs []control.Message, unknown int) {
	msgs = make([]control.Message, 0, len(list))
	for _, w := range list {
		if m, err := Decode(w); err == nil {
			msgs = append(msgs, m)
		} else {
			unknown++
		}
	}
	return msgs, unknown
}

// toCrash writes a crash; nil if there is none.
func toCrash(c control.Crash) *controlv1.Crash {
	if c.Of == 0 {
		return nil
	}
	out := &controlv1.Crash{Uid: uint64(c.Of), AgoNs: int64(c.Ago), Cause: c.Cause, Evidence: c.Evidence}
	for _, t := range c.Turns {
		out.Turns = append(out.Turns, &controlv1.CrashedTurn{Type: string(t.Entity.Type), Id: string(t.Entity.ID), Command: t.Command, Alone: t.Alone, Clean: t.Clean, Ended: t.Ended})
	}
	return out
}

func fromCrash(c *controlv1.Crash) control.Crash {
	out := control.Crash{Of: sharding.NodeUID(c.GetUid()), Ago: time.Duration(c.GetAgoNs()), Cause: c.GetCause(), Evidence: c.GetEvidence()}
	out.Turns = slices.Grow(out.Turns, len(c.GetTurns()))
	for _, t := range c.GetTurns() {
		out.Turns = append(out.Turns, control.CrashedTurn{
			Entity: sharding.Entity{Type: sharding.EntityType(t.GetType()), ID: sharding.EntityID(t.GetId())}, Command: t.GetCommand(), Alone: t.GetAlone(), Clean: t.GetClean(), Ended: t.GetEnded(),
		})
	}
	return out
}
