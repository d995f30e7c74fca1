package diagnosis

import (
	"fmt"
	"slices"
	"strings"
)

// Entities and shards that are not served as they should be.

func (x *exam) quarantined() {
	if n := len(x.Quarantined); n > 0 {
		x.say(Warning, nil, "roost entity quarantine shows the reason; when the cause is repaired, roost entity quarantine --undo (docs/running/repair.md)", "%s: %s. Their commands are refused", count(n, "entity is quarantined", "entities are quarantined"), someOf(x.Quarantined))
	}
}

func (x *exam) suspects() {
	if n := len(x.Suspects); n > 0 {
		x.say(Note, nil, "roost entity quarantine lists the regions that ended; their logs have the reason (docs/running/repair.md)", "%s: %s. They run one at a time", count(n, "entity ran when a region ended", "entities ran when a region ended"), someOf(x.Suspects))
	}
}

func (x *exam) unreadable() {
	for _, u := range x.Unreadable {
		x.say(Danger, nil, "start a region of the version that stored the data; roost rollout status shows which regions read what (docs/running/rolling-out.md)", "commands for entities in %s of %s are refused: %s", count(u.Shards, "shard", "shards"), u.Type, u.Reason)
	}
}

func (x *exam) homeless() {
	if x.Homeless > 0 && x.HomelessFor >= homelessLong {
		x.say(Danger, nil, "look at roost shard ls and roost cluster status; roost shard show TYPE/SHARD shows the reason why a shard has no region", "%s without a region, %s for %s: commands for their entities wait or fail", count(x.Homeless, "shard is", "shards are"), x.HomelessLongest, days(x.HomelessFor))
	}
}

func (x *exam) damaged() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.Damaged > 0 {
			x.say(Danger, []string{p.Name}, "see docs/running/repair.md; roost entity explain on the entity names the damaged record",
				"%s has found %s damaged in the journal in the last hour, most recently %q: its commands are refused",
				p.Name, count(int(p.Damaged), "entity or shard", "entities or shards"), p.DamagedLast)
		}
	}
}

func (x *exam) notAlive() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.NotAlive > 0 {
			list := p.NotAliveNewest
			if more := int(p.NotAlive) - len(list); more > 0 {
				list = append(slices.Clone(list), fmt.Sprintf("and %d more", more))
			}
			x.say(Danger, []string{p.Name}, "start a version of the program that can apply the stored data; or set the named record aside: roost journal repair record TYPE/ID --skip RECORD --intact (docs/running/repair.md)",
				"%s could not bring %s to life in the last hour. Their commands are refused: %s",
				p.Name, count(int(p.NotAlive), "entity", "entities"), strings.Join(list, "; "))
		}
	}
}

func (x *exam) factsMissing() {
	if x.FactsMissing != "" {
		x.say(Danger, []string{x.Active}, "restore a backup that has them (docs/running/backup.md), or request drains, cordons, pins, freezes and quarantines again, and set the target version (docs/running/repair.md)",
			"the facts of the coordinators were gone from the journal when %s became active, although entities such as %s have records: what operators had requested is lost", x.Active, x.FactsMissing)
	}
}

func (x *exam) rowsDeleted() {
	if x.RowsDeleted != "" {
		x.say(Danger, []string{x.Active}, "find out what else writes to the database of the journal, and take its rights away (docs/running/security.md). If the facts were deleted, see docs/running/repair.md",
			"%s noticed %s ago that rows were deleted from the journal, or that an older state of it was restored: %s. It stepped down and took over again", x.Active, days(x.RowsDeletedAgo), x.RowsDeleted)
	}
}

func (x *exam) rollout() {
	if x.Rollout != "" && x.RolloutStill >= rolloutLong {
		x.say(Warning, nil, "finish the rollout, or go back (docs/running/rolling-out.md). Canaries that shall stay are no problem", "the rollout of version %q is not finished, and no region has come or gone for %s", x.Rollout, days(x.RolloutStill))
	}
}

func (x *exam) lost() {
	for _, l := range x.Lost {
		again := slices.ContainsFunc(x.Lost, func(other LostRegion) bool { return other.Name == l.Name && other.Ago < l.Ago })
		if l.Ago <= lostLately && !again {
			reason := "; look at the end of its log, for example for an expired certificate"
			if l.Reason != "" {
				reason = ": " + l.Reason
			}
			x.say(Warning, []string{l.Name}, "restart the region. If it was removed on purpose, nothing needs to be done", "region %s was declared down %s ago and has not come back%s", l.Name, days(l.Ago), reason)
		}
	}
}
