//go:build mutants

package sim

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// mutants are the guards that can be removed, each with its place. A guard
// whose removal is not noticed is not proven to be needed, or the weather is
// too mild.
var mutants = []struct{ name, place string }{
	{"epoch-check", "journal: an append is refused unless the shard's epoch is its own"},
	{"seq-check", "journal: an append is refused unless it continues the sequence"},
	{"dedupe", "journal: a stored command id is refused"},
	{"output-gate", "turn: no answer before what was staged is durable"},
	{"read-fence", "turn: no read is answered before the fence was read after it"},
	{"claim", "region: nothing is served before the claim is durable"},
	{"min-epoch-after-drain", "region: a late HostShard does not revive a drained shard"},
	{"term-per-incarnation", "lease: every acquisition has a term of its own"},
	{"persist-before-send", "coordinator: nothing is said before it is durable"},
	{"held-until-durable", "coordinator: what follows from a fact is held back until that is durable"},
	{"lapse", "coordinator: nothing leaves when the lease is past its time"},
	{"lapse-at-once", "coordinator: that the lease is past its time is seen before anything that waits is looked at"},
	{"fact-unknown", "coordinator: a fact with an unknown outcome is not taken for durable"},
	{"fact-refused", "coordinator: a fact that the journal refused for now is not taken for durable"},
	{"checkpoint-first", "coordinator: the stream is read from the first fact of a checkpoint on"},
	{"flush-order", "router: what waited is sent in its order"},
	{"claim-check", "journal: a claim at an epoch that is not above the stored one is refused"},
	{"claim-repeat", "journal: the same claim by the same incarnation holds again"},
	{"snapshot-fence", "journal: a snapshot is refused unless the shard's epoch is its own"},
	{"one-unit", "turn: one unit of an entity is in progress at a time"},
	{"settle-by-write", "turn: an unknown outcome is settled by a write, never by a read"},
	{"lookup-first", "turn: what may be stored is looked up before it runs again"},
	{"snapshot-durable", "turn: snapshots are taken at a durable sequence number"},
	{"key-conflict", "turn: a key with another payload is a conflict"},
	{"drain-settles", "turn: a shard is drained when all its appends are settled"},
	{"mailbox-limit", "turn: mailboxes are bounded"},
	{"min-epoch-check", "region: HostShard below the minimum epoch is refused"},
	{"order-check", "region: an order of a lower term, or at an epoch that its coordinator has not reached, reaches no shard core"},
	{"lower-term", "region: a coordinator of a lower term is not obeyed"},
	{"admission-epoch", "region: a command routed at an older epoch is not taken"},
	{"doubt-kept", "router: NotApplied only if no attempt is in doubt"},
	{"re-entry", "router: a newer serving epoch puts back what was sent at older ones"},
	{"doubt-holds", "router: what may not be sent again holds up what came later"},
	{"refused-epoch", "router: a refused epoch is never used again"},
	{"term-raised", "lease: a term is above every epoch of the journal"},
	{"late-refusal", "router: what is refused counts, whether or not the attempt is over"},
	{"one-reader", "link: a connection is read only after the older one"},
	{"deferred-share", "router: what waits for another version of its type takes its share of the places at most"},
	{"failed-shard", "router: behind a send that failed the others of its shard fail"},
	{"rows-forward", "table: rows only go forward"},
	{"only-up-hosts", "coordinator: who is not up is given no shard"},
	{"target-as-a-fact", "coordinator: the target of rollouts is folded by the next term"},
	{"drain-kept", "coordinator: a drain is folded by the next term"},
	{"cordon-kept", "coordinator: a cordon is folded by the next term"},
	{"pin-kept", "coordinator: a pin is folded by the next term"},
	{"freeze-kept", "coordinator: a freeze is folded by the next term"},
	{"cordon", "coordinator: a cordoned region gets no shards"},
	{"pin", "coordinator: a shard goes where it is pinned"},
	{"freeze", "coordinator: nothing moves for balance while moves are frozen"},
	{"readability", "coordinator: a shard goes only to a region that reads what may be stored in it"},
	{"lost-owner-wrote", "coordinator: an owner that is lost may have stored whatever it may store"},
	{"forms-in-facts", "coordinator: what an owner may store is part of the fact"},
	{"wrote", "region: the stored forms are reported when the shard is stopped"},
	{"last-registers", "coordinator: a command exists while a registered region has it"},
	{"region-as-coordinator", "region: a watch meant for a coordinator is not answered with the copy of a region"},
	{"kept-and-alive", "turn: a kept state that an entity has read is kept no longer"},
	{"kept-given-once", "region: a state is given to the next owner once"},
	{"busy-victim", "turn: an entity is stopped when it is idle, even if its policy has chosen it before"},
	{"remembered", "turn: a record that makes an entity worth remembering says so"},
	{"remembered-lost", "turn: the death of a remembered entity is reported"},
	{"next-page", "wakeup: all pages of remembered entities are read"},
	{"restart-lost", "wakeup: an entity that has died is started again"},
	{"order-repeated", "coordinator: an order that may have got lost is repeated, by the next term at once"},
	{"successor-told", "region: the successor learns that its shard was released"},
	{"owner-asked", "router: a router that waits for a shard queries its known owner"},
	{"load-cooling", "coordinator: no shard moves on because of load just after it has moved, or after a term has begun"},
	{"load-two-reports", "coordinator: nothing moves because of load before each region has reported twice"},
	{"load-fresh", "coordinator: nothing moves because of loads that are old"},
	{"router-generation", "router: it knows the journal of its table"},
	{"late-tick", "gossip: a node's own pause suspects no other member"},
}

// harshMutants are those that the classic climate cannot notice.
var harshMutants = []struct{ name, place string }{
	{"era", "gossip: nothing of another era is joined"},
	{"load-limit", "turn: loads that are not answered are bounded"},
	{"load-deadline", "turn: who waits for a load is answered at the deadline"},
	{"stale-gate", "turn: a stale read waits until what it shows is durable"},
	{"timer-holds", "turn: an entity with a pending timer is not idle"},
	{"wake-check", "journal: a firing is refused unless that very setting stands"},
	{"fires-early", "wakeup: nothing fires before its time"},
	{"beyond-horizon", "wakeup: later wake-ups are read later"},
	{"pair-order", "outbox: one send of a sender to a target is in progress at a time"},
	{"silent-refusal", "outbox: a refusal that cannot be reported is a dead letter"},
	{"deliver-once", "journal: what depends on a send that is not done is refused once it is"},
	{"answer-life", "turn: an answer is dropped unless it is for the life that has asked"},
	{"send-row", "journal: a record with sends has a row"},
	{"damage-is-loss", "turn: what is refused because of damage is answered with data_loss"},
	{"damage-settles", "turn: damage that keeps an outcome from being settled keeps no command waiting"},
	{"router-fed", "region: its router receives additions to the table"},
	{"reply-budget", "replies: a command is taken on only if there is room for its reply"},
	{"journal-reported", "region: what it makes of its journal is reported"},
	{"journal-moves", "coordinator: what a region cut off from the journal has goes to others"},
	{"journal-recovers", "region: a journal that answers again is believed"},
	{"journal-time", "journal: ids age by the time of observed writes, not by a clock that may be set"},
	{"key-mark", "journal: a key with a time that was dropped has expired"},
	{"delete-mark", "turn: the record of a turn that deletes says so"},
	{"delete-ends", "turn: an instance does not outlive the life that it shows"},
	{"delete-wakes", "journal: the wake-ups of an entity are deleted with it"},
	{"purge-age", "journal: the rest of a life stays until its keys are old"},
	{"again-ends", "turn: a dead letter ends with the append that sends it again"},
	{"overtaken-firing", "turn: a reminder that was cancelled while its firing waited has no turn"},
	{"ask-barrier", "turn: no changing ask leaves before what was staged before its turn is durable"},
	{"ask-fence", "turn: no changing ask leaves before the fence was read after that"},
	{"ask-key", "turn: an ask has the same key whenever its command runs"},
	{"ask-doubt", "turn: who has asked is not told that nothing happened"},
	{"failed-fence", "turn: an owner that was deposed does not say that what it cannot read is lost"},
	{"ask-ordinal", "turn: several asks of a turn have keys of their own"},
	{"ask-waiting", "turn: the turns that wait are bounded"},
	{"ask-reserve", "turn: a part of the limits is for commands that entities wait for"},
	{"ask-drain", "turn: a shard that drains takes what its entities wait for"},
	{"ask-chain", "turn: a command names the entities that wait for its answer"},
	{"call-cycle", "turn: no entity is asked that waits for the answer"},
	{"probe-youngest", "turn: one turn of a circle gives up"},
	{"probe-again", "turn: probes are sent again"},
	{"probe-drain", "turn: a probe comes into a shard that drains"},
	{"route-chained", "router: a command that a shard in handoff waits for goes there"},
	{"missed-count", "wakeup: a reminder that is late fires once for all its times"},
	{"heap-bound", "turn: fewer entities are alive while too much memory is in use"},
	{"told-sizes", "turn: sizes that entities tell count before garbage is collected"},
	{"max-age", "outbox: a send is given up in the end"},
	{"send-options", "outbox: a send has the time-out, the pauses and the age of its command"},
	{"unsure", "outbox: what may have had its effect is not told as refused"},
	{"send-key", "outbox: a send has the same key in all attempts"},
	{"trim-above", "journal: no events go but those up to the cut of a snapshot"},
	{"trim-keys", "journal: a trimmed record keeps its key as long as that is remembered"},
	{"trim-wakes", "journal: a trimmed record keeps the input of a wake-up that stands"},
	{"input-wrote", "turn: a reminder's stored input is reported when the shard is stopped"},
	{"look-inputs", "coordinator: a look finds the reminders that stand"},
	{"snapshot-wrote", "turn: a state that may be in a snapshot alone is reported when the shard is stopped"},
	{"late-reading", "storeclock: a late reading does not set the clock back"},
	{"ahead-kept", "journal: a key whose time is far ahead is never dropped"},
}

// poisonMutants are those that the poisonous climate notices. Scenarios of the coordinator notice further ones.
var poisonMutants = []struct{ name, place string }{
	{"quarantine-count", "coordinator: an entity is quarantined after several crashes"},
	{"quarantine-kept", "coordinator: a quarantine is folded by the next term"},
	{"quarantine-first", "coordinator: an owner learns who is quarantined before it takes a shard"},
	{"quarantine-known", "region: a shard is taken only by a region that knows who is quarantined"},
	{"quarantine-handed-on", "region: the successor of a shard learns of a quarantine that its owner does not know"},
	{"quarantine-refuses", "turn: a quarantined entity does not run"},
	{"quarantine-culprit", "coordinator: a crash at which a quarantined entity ran counts for no other entity"},
	{"quarantine-waits", "coordinator: a shard waits for the report about its last owners"},
	{"quarantine-patience", "coordinator: a shard waits longer after each further loss"},
	{"quarantine-window", "coordinator: a crash counts for as long as the window"},
	{"suspects-wait", "region: a suspect that hangs holds up other suspects for a second"},
	{"suspects-core", "region: if a shard core panics, the entity of the command is to blame"},
	{"suspects-alone", "region: suspects run one at a time"},
	{"quarantine-alone", "coordinator: after a crash without a cause only an entity that ran alone is quarantined"},
	{"quarantine-starting", "coordinator: a region that ends before it could say that it serves a shard is a loss"},
}

// rare are those that show in certain weather only. Other seeds are left out.
var rare = map[string]func(weather) bool{
	// The owner is paused, and an owner of a newer version stores a snapshot meanwhile, and trims the events.
	"failed-fence": func(w weather) bool { return w.Forms && w.Pause > 0 && w.KeepEvents > 0 && w.KeepEvents <= 3 },
}

// firstSeeds are the first seeds that are tried for mutants that few seeds notice.
var firstSeeds = map[string]uint64{"late-reading": 431415}

// TestMutants runs one mutant after the other until a promise is broken, and
// prints which seed noticed what.
func TestMutants(t *testing.T) {
	limit := number64(t, "SIM_SEEDS", 3000)
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) { seekMutant(t, classic, limit, m.name, m.place) })
	}
	for _, m := range harshMutants {
		t.Run(m.name, func(t *testing.T) { seekMutant(t, harsh, limit, m.name, m.place) })
	}
	for _, m := range poisonMutants {
		t.Run(m.name, func(t *testing.T) { seekMutant(t, poisonous, limit, m.name, m.place) })
	}
}

func seekMutant(t *testing.T, c climate, limit uint64, name, place string) {
	mutant.Activate(name)
	began := time.Now()
	for seed, runs := max(1, firstSeeds[name]), uint64(0); runs < limit; seed++ {
		if fits := rare[name]; fits != nil && !fits(drawWeather(c, seed)) {
			continue
		}
		runs++
		w := newWorld(c, seed, nil)
		w.Run()
		if w.broken != nil {
			t.Logf("%-21s seed %4d  %-28s %s", name, seed, w.broken.property, w.broken.text)
			return
		}
	}
	t.Errorf("%-21s SURVIVES %d seeds in %v  (%s)", name, limit, time.Since(began).Round(time.Millisecond), place)
}
