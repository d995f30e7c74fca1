package diagnosis

import (
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Role is the role of a party.
type Role string

// The roles.
const (
	Gateway     Role = "gateway"
	Coordinator Role = "coordinator"
	Region      Role = "region"
)

// Result is the outcome of a question to a party. A process that is dead, one that is paused, and one that is cut off
// all give no answer. What happens to a new connection distinguishes them.
type Result string

// The results.
const (
	Answered Result = "answered"
	// Refused: its host refuses connections, because no process listens. The process has ended.
	Refused Result = "refused"
	// Silent: its host accepts connections for it, but the process does not answer. It is paused, or gets no processor
	// time.
	Silent Result = "silent"
	// Unreached: its host does not answer either. It is cut off, or its host is down.
	Unreached Result = "unreached"
	// Failed: it has answered with an error.
	Failed Result = "error"
)

// Party is a process that was asked.
type Party struct {
	Role  Role
	Name  string // its name; its address if the name is not known
	Addr  string
	UID   uint64 // of its incarnation; 0: not known
	Asker bool   // it is the process that collects the evidence
	// Result is the outcome. Said is the answer if Result is Answered. Error says more if Result is Failed.
	Result Result
	Error  string
	Said   *inspectionv1.Observation
}

// Evidence is the knowledge of the processes about an entity.
type Evidence struct {
	Type, ID string
	Parties  []Party
}

// Thresholds of slowness. Below these times, everything waits occasionally.
const (
	// StuckAfter is the time that a turn may run before it counts as stuck. Turns take milliseconds, and senders wait
	// for 10 s by default.
	StuckAfter = time.Second
	// SlowAfter is the time that a commit or a load may take before the journal counts as slow: ten times as long as
	// on a busy disk.
	SlowAfter = 500 * time.Millisecond
	// StaleAfter is the time that a gateway may get no news of the route table before its table counts as stale.
	// It normally hears something every second, and looks for another coordinator after two.
	StaleAfter = 3 * time.Second
	// BehindAfter is the time that a gateway's row may be older than the coordinator's. A change arrives within
	// milliseconds.
	BehindAfter = 500 * time.Millisecond
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
