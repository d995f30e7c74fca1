package diagnosis

import (
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// tables finds gateways whose route tables are out of date.
func (q *inquest) tables() {
	for i := range q.Parties {
		p := &q.Parties[i]
		g := p.Said.GetGateway()
		if g == nil {
			continue
		}
		heard := time.Duration(0)
		if g.HeardMs > 0 {
			heard = ms(g.HeardMs)
		}
		next := "look at the network between " + p.Name + " and the coordinators; send commands to another gateway meanwhile"
		why := prefixed(" (", g.Complaint)
		if why != "" {
			why += ")"
		}
		switch newer, who := q.newer(g.Row); {
		case !g.Table:
			q.findAt(p, TableStale, true, 0, next, "the gateway %s has no route table yet%s", p.Name, why)
		case newer > g.Row.GetEpoch() && (heard >= StaleAfter || q.said != nil && ms(q.said.SinceMs) >= BehindAfter):
			q.findAt(p, TableStale, true, heard, next, "the gateway %s sends commands for %s/%d to a former owner: its row is of epoch %s, and %s has %s%s", p.Name, q.Type, g.Row.GetIndex(), epochText(g.Row.GetEpoch()), who, epochText(newer), why)
		case heard >= StaleAfter && q.aloneWith(p):
			q.findAt(p, TableStale, true, heard, next, "the gateway %s has heard nothing of the route table for %s%s, and reaches no coordinator: it may send commands to a former owner", p.Name, heard, why)
		case heard >= StaleAfter && q.said != nil:
			q.findAt(p, TableStale, false, heard, next, "the gateway %s has heard nothing of the route table for %s%s: its row of this shard is right, and may be wrong soon", p.Name, heard, why)
		}
	}
}

// newer returns the highest epoch of a shard that another process than the gateway knows, and where it is known from.
// That is the coordinator's row, or without a coordinator a fence: it shows that a region has claimed the shard.
func (q *inquest) newer(row *inspectionv1.ObservedRow) (epoch uint64, who string) {
	if row == nil {
		return 0, ""
	}
	if r := q.said.GetRow(); r.GetEpoch() > 0 {
		epoch, who = r.Epoch, "the row of "+q.coordinator.Name
	}
	if q.said != nil {
		return epoch, who
	}
	for i := range q.Parties {
		if j := q.Parties[i].Said.GetJournal(); j.GetFenceRead() && j.FenceEpoch > epoch {
			epoch, who = j.FenceEpoch, "the fence in the journal"
		}
	}
	return epoch, who
}

// aloneWith reports whether a gateway is cut off: apart from the gateway itself, neither a coordinator nor a region has
// answered. A host that refuses connections counts as an answer.
func (q *inquest) aloneWith(p *Party) bool {
	if q.said != nil {
		return false
	}
	for i := range q.Parties {
		if o := &q.Parties[i]; o != p && (o.Result == Answered && o.Role == Region || o.Result == Refused) {
			return false
		}
	}
	return true
}

// gateways checks how full the gateways are, and which of them do not answer.
func (q *inquest) gateways() {
	for i := range q.Parties {
		p := &q.Parties[i]
		if g := p.Said.GetGateway(); g != nil {
			if g.Row != nil && g.Room == 0 {
				q.findAt(p, GatewayFull, true, ms(g.OldestMs), "gateway.shard_commands and gateway.commands are the limits", "the gateway %s takes no more commands for %s/%d: it has %d", p.Name, q.Type, g.Row.Index, g.Waiting+g.Sent)
			}
			continue
		}
		known := q.knownGateway(p)
		if p.Role != Gateway || known == nil || ms(known.HeardMs) < StaleAfter {
			continue // if the coordinator has heard it a moment ago, it is probably only unreachable from here
		}
		next := "send commands to another gateway; look at the network and the host of " + p.Name
		switch p.Result {
		case Unreached:
			q.findAt(p, TableStale, true, ms(known.HeardMs), next, "the gateway %s was last heard %s ago and cannot be reached: it is cut off, and its route table is as old as that", p.Name, ms(known.HeardMs))
		case Silent:
			q.findAt(p, GatewaySilent, true, ms(known.HeardMs), next, "the gateway %s was last heard %s ago and does not answer, though its host takes connections for it: it is paused or starved", p.Name, ms(known.HeardMs))
		}
	}
}

// knownGateway returns what the coordinator knows of a gateway; nil: nothing.
func (q *inquest) knownGateway(p *Party) *inspectionv1.ObservedGateway {
	for _, g := range q.said.GetGateways() {
		if g.Addr == p.Name && g.Uid == p.UID {
			return g
		}
	}
	return nil
}
