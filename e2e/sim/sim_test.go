package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSameSeedSameTrace comes first: without it no failure can be repeated.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		c := climates[seed%2]
		var lines []string
		first := newWorld(c, seed, func(line string) { lines = append(lines, line) })
		first.Run()
		n := 0
		second := newWorld(c, seed, func(line string) {
			if n < len(lines) && lines[n] != line {
				t.Fatalf("seed %d: line %d differs:\n%s\n%s", seed, n, lines[n], line)
			}
			n++
		})
		second.Run()
		if n != len(lines) || first.hash != second.hash {
			t.Fatalf("seed %d: %d and %d lines, hashes %x and %x", seed, len(lines), n, first.hash, second.hash)
		}
		plain := newWorld(c, seed, nil)
		plain.Run()
		if plain.hash != first.hash {
			t.Fatalf("seed %d: tracing changes what happens", seed)
		}
	}
}

// TestSeed runs the seed that SIM_SEED names, in the climate of SIM_CLIMATE
// (classic unless it says harsh).
func TestSeed(t *testing.T) {
	text := os.Getenv("SIM_SEED")
	if text == "" {
		t.Skip("SIM_SEED names no seed")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var trace func(string)
	if os.Getenv("SIM_TRACE") != "" {
		trace = func(line string) { fmt.Println(line) }
	}
	w := newWorld(climateOf(t), seed, trace)
	w.Run()
	t.Logf("seed %d: %d steps, %d commands, hash %x", seed, w.steps, len(w.ops), w.hash)
	if w.broken != nil {
		t.Errorf("%s", w.failure())
	}
}

// brokeOnce are seeds that have broken a promise, and what it was. The code has
// changed since, so they may meet other weather than they did.
var brokeOnce = []struct {
	climate  climate
	seed     uint64
	property string
}{
	{classic, 16849, "a refused epoch is over"},
	{classic, 63741, "a refused epoch is over"},
	{classic, 82818, "a refused epoch is over"},
	{classic, 100315, "a refused epoch is over"},
	{classic, 102520, "a refused epoch is over"},
	{classic, 108770, "a refused epoch is over"},
	{classic, 111773, "a refused epoch is over"},
	{classic, 322877, "all finish and converge"}, // the checker took a burst of old commands for a refusal that stays
	{harsh, 320049, "all finish and converge"},   // a joiner had heard of a later era, of a half of the cluster that was gone
	{harsh, 258051, "linearizable"},              // an entity was loaded while an append could still be committed late
	{harsh, 258499, "all finish and converge"},   // the checker took an expired key for a wrong answer
	{harsh, 230418, "all finish and converge"},   // late gossip excluded a healthy member
	// a paused region took the states of a shard after its wait for them was over, and another owner had begun
	{harsh, 302769, "who begins without a state does not get it later"},
	// the checker took a refusal for lack of room for one of the shard that drains
	{harsh, 306477, "a draining shard takes what its entities wait for"},
	{harsh, 308847, "a draining shard takes what its entities wait for"},
	{harsh, 313179, "sends are in order"}, // the checker did not know that a send in doubt may come late
	// a region that was paused took the clock of the store in a late page for the present one
	{harsh, 431415, "a send that is too old is not tried"},
	// the checker did not know that the heartbeat of a coordinator that has ended may be stored late
	{harsh, 445145, "driver"},
	{harsh, 432150, "an attempt has the time of its send"}, // the checker did not know that a pause comes before an output
	// a region ran a command again whose key had expired while its append was in doubt
	{harsh, 500014, "not applied has no effect"},
	// the checker took the age of a key from its commit, not from when its record was handed to the journal
	{harsh, 600243, "acknowledged is durable"},
	// the checker did not know that probes may have no room, so that a circle ends by a deadline
	{harsh, 622857, "a draining shard takes what its entities wait for"},
	// the checker did not know that a key may expire while its command is in doubt, so that the command ends without an effect
	{harsh, 644068, "order"},
	{harsh, 663345, "order"},
}

func TestBrokeOnce(t *testing.T) {
	for _, b := range brokeOnce {
		w := newWorld(b.climate, b.seed, nil)
		w.Run()
		if w.broken != nil {
			t.Errorf("%s\n\tit broke %q before", w.failure(), b.property)
		}
	}
}

// TestSeeds runs many seeds in each climate, or in the one that SIM_CLIMATE
// names, and looks for coverage over all of them.
func TestSeeds(t *testing.T) {
	if os.Getenv("SIM_SEED") != "" {
		t.Skip("SIM_SEED names one seed")
	}
	n, first := number64(t, "SIM_SEEDS", 500), number64(t, "SIM_FIRST", 1)
	if testing.Short() && os.Getenv("SIM_SEEDS") == "" {
		n = 50
	}
	run := climates
	if os.Getenv("SIM_CLIMATE") != "" {
		run = []climate{climateOf(t)}
	}
	for _, c := range run {
		t.Run(string(c), func(t *testing.T) {
			began := time.Now()
			total := runSeeds(t, c, first, n)
			t.Logf("%d seeds from %d in %v: %.1f virtual hours, %d steps, %d commands", n, first,
				time.Since(began).Round(time.Millisecond), float64(total.virtual)/float64(3600*sec), total.steps, total.commands)
			for _, name := range slices.Sorted(maps.Keys(total.marks)) {
				t.Logf("%9d  in %5.1f%% of the seeds  %s", total.marks[name], 100*float64(total.seeds[name])/float64(n), name)
			}
			if n < 200 {
				return
			}
			must := mustHappen
			if c == harsh {
				must = slices.Concat(mustHappen, mustHappenHarsh)
			}
			for _, name := range must {
				if total.marks[name] == 0 {
					t.Errorf("it never happened: %s", name)
				}
			}
		})
	}
}

// mustHappen are the events without which the weather is too mild.
var mustHappen = []string{
	"a region rests", "a coordinator rests",
	"a turn makes an instance",
	"brake: stopped",
	"brake: probing",
	"brake: released",
	"remembered: it is started",
	"remembered: it cannot be started",
	"facts compacted",
	"facts read from a snapshot on",
	"journal: append refused by epoch",
	"journal: append refused by sequence",
	"journal: append refused by command id",
	"journal: claim refused by epoch",
	"journal: fence refused by epoch",
	"journal: unknown, applied",
	"journal: unknown, applied later",
	"journal: unknown, not applied",
	"journal: full",
	"coordinator deposed",
	"coordinator: unknown whether a fact is stored",
	"gateway: command sent again",
	"gateway: command shed",
	"gateway: no link to send on",
	"gateway: link full",
	"rollout: another target",
	"rollout: back to an earlier target",
	"rollout: a target that no region runs is given up",
	"gateway: a command waits for a version that has it",
	"gateway: a command has come to a version that has it",
	"gateway: a command has come to a version that lacks it",
	"gateway: a command that the shard's region lacks is not sent",
	"gateway: never written to a lost link",
	"frame dropped unread",
	"region: an older link comes late",
	"region: a link waits until the older one is not read any more",
	"region: a command handed over after the end of its link",
	"gateway: command enters again at a newer epoch",
	"shard moved: handoff in good order",
	"shard moved: handoff timed out or owner lost",
	"shard moved: owner lost",
	"shard moved: as planned",
	"shard moved: as planned, by the next coordinator",
	"shard moved: not as planned",
	"dedupe: a stored reply is found",
	"outcome looked up after the shard was lost",
	"process killed after its commit",
	"link broken",
	"link timed out",
	"handoff",
	"region: shard stopped",
	"region: host refused",
	"kept: states come",
	"kept: an entity continues where it moved to",
	"kept: a planned move in calm weather",
	"region: not mine",
	"region left in good order",
	"drain outlives the term",
	"steering outlives the term",
	"operator: shard is moved",
	"steering: a pinned shard has moved",
	"steering: a cordoned region gets nothing",
	"snapshot",
	"entity loaded from a snapshot",
	"turn spoiled",
	"turn hangs",
	"turn cancelled",
	"turn of an ended incarnation",
	"gossip: self downed",
	"gossip: split brain resolved",
	"gossip: new incarnation",
	"gossip: evidence of a dead process",
	"gossip: suspected",
	"gossip: lease yielded",
	"message to a former incarnation",
	"no region reads a shard",
	"look: at a shard that no region reads",
	"an event of a later version is read",
	"client: unknown",
	"client: not_applied",
	"client: executed",
	"client: same key again after unknown",
	"client: same key again after executed",
	"client: same key through another gateway at the same time",
	"client: key of another command",
	"client went away",
	"lease store lost a reply",
}

// mustHappenHarsh are the events without which the harsh climate is not.
var mustHappenHarsh = []string{
	"shard moves because of load",
	"send: attempt is executed", "send: attempt is not_applied", "send: attempt is unknown", "send: refused",
	"send: its sender was deleted meanwhile", "send: its target was deleted meanwhile",
	"send: its sender was told: done", "send: its sender was told: refused", "send: its sender was told: doubtful", "send: in doubt",
	"send: whether its end is stored is not known",
	"dead letter: two operators",
	"forward: answered by the same region", "forward: answered by another region", "forward: unknown",
	"ask: a chain of two", "ask: a chain of three or more", "ask: a call cycle is refused", "ask: a circle is found",
	"ask: a circle in calm weather", "ask: a command comes into a shard that drains", "ask: there is no room for a command that an entity waits for",
	"reminder: a repeated one fires", "reminder: it was due several times", "reminder: it is cancelled", "reminder: it is set again",
	"passivation: entities have grown too large",
	"trim: a trimmed entity is loaded", "trim: only a snapshot has the state",
	"journal: append refused, damaged",
	"journal: fence refused, damaged",
	"journal: claim refused, damaged",
	"journal: load meets damage",
	"client: data loss",
	"coordinator: not all epochs can be read",
	"damage is answered after the storm",
	"journal: hangs",
	"region: a command waits for room",
	"region: a command has waited for room",
	"region: a command has waited too long for room",
	"region: a gateway that reads nothing is cut off",
	"region: a command comes behind what was dropped",
	"load answered after it was given up",
	"command refused: too many loads without an answer",
	"dedupe: a repeat is looked up while the entity lives",
	"timer: it held passivation off",
	"passivation: at a limit",
	"passivation: for lack of memory",
	"client: stale read",
	"gossip: downed when all had forgotten it",
	"region without a journal for long",
	"region: journal silent",
	"region: journal recovering",
	"region: journal answers",
	"shard of a region without a journal moved",
	"client: its key has expired",
	"fault: clock step",
	"client: an old key again",
	"an id was used again after it had expired",
}

// totals sums up many runs.
type totals struct {
	mu              sync.Mutex
	marks, seeds    map[string]int
	virtual         int64
	steps, commands int
}

func (s *totals) add(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.virtual += w.now
	s.steps += w.steps
	s.commands += len(w.ops)
	for name, n := range w.marks {
		s.marks[name] += n
		s.seeds[name]++
	}
}

// reportEvery is the number of seeds between two lines of progress in a long run.
const reportEvery = 2000

// runSeeds runs seeds on two goroutines; every world stays on one.
func runSeeds(t *testing.T, c climate, first, n uint64) *totals {
	total := &totals{marks: map[string]int{}, seeds: map[string]int{}}
	var next atomic.Uint64
	var failures atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for failures.Load() < 5 {
				i := next.Add(1) - 1
				if i >= n {
					return
				}
				if i > 0 && i%reportEvery == 0 {
					t.Logf("%s: %d of %d seeds; FIRST=%d continues from here", c, i, n, first+i)
				}
				w := newWorld(c, first+i, nil)
				w.Run()
				total.add(w)
				if w.broken != nil {
					failures.Add(1)
					t.Errorf("%s", w.failure())
				}
			}
		})
	}
	wg.Wait()
	return total
}

// failure is one line that describes the fault and how to reproduce it.
func (w *World) failure() string {
	return fmt.Sprintf("seed %d (%s) breaks %q: %s\n\tmake sim CLIMATE=%s SEED=%d TRACE=1",
		w.seed, w.climate, w.broken.property, w.broken.text, w.climate, w.seed)
}

func climateOf(t *testing.T) climate {
	switch c := climate(os.Getenv("SIM_CLIMATE")); c {
	case "":
		return classic
	case classic, harsh, poisonous:
		return c
	default:
		t.Fatalf("SIM_CLIMATE: %q is none of %q, %q and %q", c, classic, harsh, poisonous)
		return ""
	}
}

func number64(t *testing.T, env string, otherwise uint64) uint64 {
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s is %q: choose a number from 1 on", env, text)
	}
	return n
}
