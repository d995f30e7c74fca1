package replies

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/mutant"
)

// Config bounds what a region owes.
type Config struct {
	// Total is how many bytes of replies may be owed: those that connections have
	// not taken yet, and those that commands which were admitted are expected to
	// bring. Default 256 MiB, as for the commands that wait.
	Total int
	// Connection is the same for one connection. Default 32 MiB: some hundred
	// milliseconds of a fast network. The last eighth is kept for small replies.
	Connection int
	// Largest is the largest reply that can be sent, half of the least that
	// Connection can be. Default 1 MiB and the overhead. A reply of at most an
	// eighth of it is small.
	Largest int
	// Unknown is what is expected of a kind of command that has not had a reply
	// yet: much enough that the first burst of large ones finds room, little enough
	// that hundreds of slow turns are under way at a time. Default 64 KiB.
	Unknown int
	// Waiting and WaitingBytes bound the commands that wait for room, on all
	// connections together. Defaults 10,000 commands and 32 MiB.
	Waiting      int
	WaitingBytes int
	// WaitingShare is the share of a command's time that it may wait for room:
	// then it is refused, while its sender still waits for the answer. Default
	// 0.5, as for the turns before it.
	WaitingShare float64
}

// DefaultConfig is the configuration that suits most regions.
func DefaultConfig() Config {
	return Config{
		Total: 256 << 20, Connection: 32 << 20, Largest: 1<<20 + Overhead, Unknown: 64 << 10,
		Waiting: 10_000, WaitingBytes: 32 << 20, WaitingShare: 0.5,
	}
}

// Validate refuses a configuration by which a command could wait for ever.
func (c *Config) Validate() error {
	var errs []error
	if c.Unknown < Overhead || c.Unknown > c.Largest {
		errs = append(errs, fmt.Errorf("replies: Unknown is %d, must be %d to %d, the largest reply", c.Unknown, Overhead, c.Largest))
	}
	if c.Connection < 2*c.Largest {
		errs = append(errs, fmt.Errorf("replies: Connection is %d, must be at least %d, twice the largest reply, which would never find room", c.Connection, 2*c.Largest))
	}
	if c.Total < 2*c.Connection {
		errs = append(errs, fmt.Errorf("replies: Total is %d, must be at least twice Connection (%d), or one connection could take all", c.Total, c.Connection))
	}
	if c.Waiting <= 0 || c.WaitingBytes <= 0 {
		errs = append(errs, errors.New("replies: Waiting and WaitingBytes must be above 0"))
	}
	if !(c.WaitingShare > 0 && c.WaitingShare <= 1) {
		errs = append(errs, fmt.Errorf("replies: WaitingShare is %v, must be above 0 and at most 1", c.WaitingShare))
	}
	return errors.Join(errs...)
}

// Budget is what all connections of a region owe. It is not safe for concurrent
// use.
type Budget struct {
	cfg            Config
	unsent, owed   int // sums over the accounts
	waiting, bytes int // commands in all queues
}

// Account is what is owed on one connection.
type Account struct {
	unsent int // replies that the connection has not taken
	owed   int // expected of what is admitted and not answered
}

// Ticket is a command that was admitted.
type Ticket struct {
	account  *Account
	kind     *Kind
	expected int
}

// NewBudget makes a budget of which nothing is used.
func NewBudget(cfg Config) *Budget { return &Budget{cfg: cfg} }

// Admit takes on a command of a connection if there is room for its reply.
func (b *Budget) Admit(a *Account, k *Kind) (Ticket, bool) {
	t := Ticket{account: a, kind: k, expected: b.expect(k)}
	mine, all := a.unsent+a.owed+t.expected, b.unsent+b.owed+t.expected
	limit := min(b.cfg.Connection, b.cfg.Total-all)
	if !b.small(t.expected) {
		limit -= limit / 8
	}
	if mine > limit && !mutant.On("reply-budget") {
		return Ticket{}, false
	}
	a.owed += t.expected
	b.owed += t.expected
	return t, true
}

// expect is what the next reply of a kind counts.
func (b *Budget) expect(k *Kind) int { return min(k.Expect(b.cfg.Unknown), b.cfg.Largest) }

// small reports whether a reply may use the room that is kept for small ones.
func (b *Budget) small(expected int) bool { return expected <= b.cfg.Largest/8 }

// Expected is what the reply is expected to count.
func (t *Ticket) Expected() int { return t.expected }

// Grow makes room for a reply that is larger than expected, and reports whether
// there is any. If not, the reply has to go, though the command ran: only so the
// bound holds whatever was expected.
func (b *Budget) Grow(t *Ticket, size int) bool {
	more := size - t.expected
	if b.unsent+b.owed+more > b.cfg.Total {
		return false
	}
	t.account.owed += more
	b.owed += more
	t.expected = size
	return true
}

// Answered ends an admitted command. Its reply is the connection's from now on
// (see [Budget.Unsent]). size is what it counted, 0 if that says nothing of the
// replies of its kind.
func (b *Budget) Answered(t Ticket, size int) {
	t.account.owed -= t.expected
	b.owed -= t.expected
	if size > 0 {
		t.kind.Learn(size)
	}
}

// Unsent says how many bytes of replies a connection has not taken: none once it
// has ended.
func (b *Budget) Unsent(a *Account, bytes int) {
	b.unsent += bytes - a.unsent
	a.unsent = bytes
}

// Used is how much of the budget is used.
func (b *Budget) Used() int { return b.unsent + b.owed }

// Used is how much of the budget the connection uses.
func (a *Account) Used() int { return a.unsent + a.owed }
