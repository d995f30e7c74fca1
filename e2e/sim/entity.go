package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// The entity of the simulation is an append-only list of numbers, known by its
// length and a running hash over its elements. Every reply tells both, so that
// every reply names exactly one moment in the entity's life.
const (
	cmdAdd   = "Add"   // appends a number
	cmdAdd2  = "Add2"  // appends two numbers, as two events of one turn
	cmdFail  = "Fail"  // business error: nothing is appended
	cmdPanic = "Panic" // panics after staging
	cmdGet   = "Get"   // read-only
	cmdPeek  = "Peek"  // read-only, stale
	cmdQuit  = "Quit"  // asks for passivation
	cmdTimer = "Timer" // starts a timer that adds later
	cmdLater = "Later" // the same, later than idle entities are passivated
	// cmdForward has another entity add a number.
	cmdForward = "Forward"
	// cmdRemind sets a reminder that adds later, cmdRepeat one that does so again and again, and
	// cmdCancel cancels one.
	cmdRemind, cmdRepeat, cmdCancel = "Remind", "Repeat", "Cancel"
	// cmdRemindAsk sets a reminder that has other entities add, see reminderasks.go.
	cmdRemindAsk = "RemindAsk"
	// cmdForget ends that the entity is remembered.
	cmdForget = "Forget"
	cmdDelete = "Delete" // appends a number and deletes the entity
	// cmdSend sends numbers to another entity, cmdTold takes the answers.
	cmdSend, cmdTold = "Send", "Told"
)

// types are the entity types of every run. Few shards, so that they move a lot.
var types = []sharding.TypeDesc{
	{Type: "Account", Shards: 4, Commands: commands()},
	{Type: "Device", Shards: 6, Rule: sharding.ShardRule{Separator: "-", Part: 1}, Commands: commands()},
	{Type: "Session", Shards: 4, Volatile: true, Commands: commands()},
}

func commands() []sharding.CommandDesc {
	list := []sharding.CommandDesc{
		{Name: cmdAdd}, {Name: cmdAdd2}, {Name: cmdFail}, {Name: cmdPanic},
		{Name: cmdGet, ReadOnly: true}, {Name: cmdPeek, ReadOnly: true, Stale: true},
		{Name: cmdQuit}, {Name: cmdForward}, {Name: cmdTimer}, {Name: cmdLater}, {Name: cmdRemind}, {Name: cmdRemindAsk}, {Name: cmdRepeat}, {Name: cmdCancel}, {Name: cmdForget},
		{Name: cmdSend}, {Name: cmdTold},
		{Name: cmdDelete}, {Name: sharding.DeleteCommand},
	}
	slices.SortFunc(list, func(a, b sharding.CommandDesc) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// versions is the number of versions of the program. Each has a command of its own,
// which does what Add does.
const versions = 3

func cmdOfVersion(version int) string { return fmt.Sprint("Version", version) }

// adds reports whether a command appends numbers.
func adds(cmd string) bool {
	return cmd == cmdAdd || cmd == cmdAdd2 || cmd == cmdDelete || ofVersion(cmd)
}

// ofVersion reports whether only one version has the command.
func ofVersion(cmd string) bool { return strings.HasPrefix(cmd, "Version") }

const passivateAfter = 3 * sec

// turnTypes are the types as the execution core sees them, in a version of the program; one is
// trimmed if keep is not 0. They have no strategies of passivation yet: each region draws them.
func turnTypes(version, keep int) []turn.Type {
	var list []turn.Type
	for i, t := range types {
		t.Commands = append(slices.Clone(t.Commands), sharding.CommandDesc{Name: cmdOfVersion(version)})
		tt := turn.Type{Desc: t}
		if i == 1 {
			tt.SnapshotEvery, tt.KeepEvents = 7, keep
		}
		tt.KeepOnMoves = t.Volatile
		list = append(list, tt)
	}
	return list
}

// list is the state of an entity.
type list struct {
	// life is the life of the entity: the sequence number of the record that deleted it last. So
	// the state of one life is never taken for another one's.
	life uint64
	n    uint64
	hash uint64
}

func (l *list) add(x uint64) {
	l.n++
	l.hash = (l.hash ^ x) * 0x9e3779b97f4a7c15
	l.hash ^= l.hash >> 29
}

func (l list) encode() []byte {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, l.life), l.n)
	return binary.BigEndian.AppendUint64(b, l.hash)
}

func decodeList(b []byte) (l list, ok bool) {
	if len(b) != 24 {
		return list{}, false
	}
	return list{life: binary.BigEndian.Uint64(b), n: binary.BigEndian.Uint64(b[8:]), hash: binary.BigEndian.Uint64(b[16:])}, true
}

func number(x uint64) []byte { return binary.BigEndian.AppendUint64(nil, x) }

func decodeNumber(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// second is the number that Add2 and Timer add besides or instead of x.
func second(x uint64) uint64 { return x | 1<<62 }

// reminded is the number that a reminder adds, firing the one that it adds if it was due so many
// times before and did not fire.
func reminded(x uint64) uint64 { return x | 1<<61 }

func firing(x uint64, missed int64) uint64 { return reminded(x) | uint64(missed)<<40 }

// ofReminder is the number of the command that has set the reminder which adds a number, or asks.
func ofReminder(x uint64) uint64 { return x &^ (1 << 61) }

// missed counts the times at which the reminder that adds a number was due and did not fire.
func missed(x uint64) int64 { return int64(x >> 40 & (1<<18 - 1)) }

// replay builds the state from what the journal holds.
func replay(in journal.Loaded) (l list) {
	l.life = in.Life
	if in.Snapshot.Seq > 0 {
		l, _ = decodeList(in.Snapshot.Payload)
	}
	for i := range in.Records {
		for _, e := range in.Records[i].Events {
			l.add(decodeNumber(e.Payload))
		}
	}
	return l
}

// turnOf runs the handler of a command on the state l and returns what the
// turn staged and answers. The state changes only if the turn holds.
func turnOf(l *list, env *sharding.Envelope, now time.Time) (done turn.TurnDone) {
	x := decodeNumber(env.Payload)
	after := *l
	stage := func(x uint64) {
		after.add(x)
		done.Events = append(done.Events, sharding.Event{Name: "Added", Payload: number(x)})
	}
	done.Reply = sharding.Reply{Outcome: sharding.Executed}
	switch cmd := env.Command; {
	case cmd == cmdAdd, ofVersion(cmd):
		stage(x)
	case cmd == cmdAdd2:
		stage(x)
		stage(second(x))
	case cmd == cmdDelete:
		stage(x)
		done.Deleted = true
	case cmd == cmdFail:
		done.Reply.Code, done.Reply.Message = sharding.FailedPrecondition, "as asked for"
	case cmd == cmdPanic:
		done.Events = nil
		done.Spoiled = true
		done.Reply = sharding.Reply{Outcome: sharding.Executed, Code: sharding.Internal, Message: "panic"}
		return done
	case cmd == cmdQuit:
		done.Passivate = true
	case cmd == cmdTimer:
		done.Timers = []turn.Timer{{Name: "t", After: nanos(50 * ms), Command: cmdAdd, Payload: number(second(x))}}
	case cmd == cmdForget:
		done.Forgotten = true
	case cmd == cmdRemind, cmd == cmdRemindAsk, cmd == cmdRepeat, cmd == cmdCancel: // of one name in two
		k := sharding.Wake{Kind: sharding.ReminderWake, Name: fmt.Sprint("r", x%2)}
		if cmd != cmdCancel {
			k.Due, k.Input = now.UnixMilli()+remindIn(x), sharding.Input{Command: cmdAdd, Payload: number(reminded(x))}
		}
		if cmd == cmdRemindAsk {
			k.Input.Command = cmdForward
		}
		if cmd == cmdRepeat {
			k.Period = 300 + int64(x*41%3000)
		}
		done.Wakes = []sharding.Wake{k}
	case cmd == cmdLater:
		done.Timers = []turn.Timer{{Name: "t", After: nanos(passivateAfter * 3 / 2), Command: cmdAdd, Payload: number(second(x))}}
	}
	*l = after
	done.Reply.Payload = after.encode()
	return done
}
