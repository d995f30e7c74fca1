package diagnosis

import (
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Role is what a party is.
type Role string

// The roles.
const (
	Gateway     Role = "gateway"
	Coordinator Role = "coordinator"
	Region      Role = "region"
)

// Result is what has come of a question to a party. A process that is dead, one that is paused and one
// that is cut off are all silent at first. What its host does with a new connection tells them apart.
type Result string

// The results.
const (
	Answered Result = "answered"
	// Refused: nobody listens at its address. Its host is there, and the process has ended.
	Refused Result = "refused"
	// Silent: its host accepts connections for it, and it does not answer. It is paused, or has no
	// processor.
	Silent Result = "silent"
	// Unreached: its host does not answer either. It is cut off, or gone with its host.
	Unreached Result = "unreached"
	// Failed: it has answered with an error.
	Failed Result = "error"
)

// Party is a process that was asked.
type Party struct {
	Role  Role
	Name  string // name, or address while unknown
	Addr  string
	UID   uint64 // of its incarnation; 0: not known
	Asker bool   // it is the process that gathers the evidence
	// Result is what has come of it. Said is there if it is Answered, Error says more if it is not.
	Result Result
	Error  string
	Said   *inspectionv1.Observation
}

// Evidence is what was found out about an entity.
type Evidence struct {
	Type, ID string
	Parties  []Party
}

// What counts as slow. Below these times, everything waits now and then.
const (
	// StuckAfter is how long a turn runs before it is taken to hang. Turns take milliseconds, and a
	// command waits for 10 s by default.
	StuckAfter = time.Second
	// SlowAfter is how long a commit or a load takes before the journal is called slow: ten times what
	// a busy disk takes.
	SlowAfter = 500 * time.Millisecond
	// StaleAfter is how long a gateway hears nothing of the route table before its table is called stale.
	// It hears something every second, and looks for another coordinator after two.
	StaleAfter = 3 * time.Second
	// BehindAfter is how long a row may differ from that of the coordinator. A change takes some
	// milliseconds to arrive.
	BehindAfter = 500 * time.Millisecond
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
