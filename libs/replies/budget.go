package replies

import (
	"errors"
	"fmt"
	"hash/maphash" // pure: the seed decides only in which bucket of entities an entity is

	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config bounds the memory that a region uses for replies.
type Config struct {
	// Total bounds the bytes of replies: those that are not sent yet, and those that
	// admitted commands are expected to produce. Default 256 MiB, as for waiting
	// commands.
	Total setting.Bytes `key:"reply_bytes" help:"the largest total size of unsent replies: replies that gateways have not taken yet, and expected replies of accepted commands. A command without room for its reply waits; after half of its time, the region refuses the command as resource_exhausted"`
	// Connection bounds the same bytes for one connection. Default 32 MiB: some hundred
	// milliseconds of a fast network. The last eighth is kept for small replies.
	Connection setting.Bytes `key:"link_reply_bytes" help:"the largest total size of unsent replies on one connection of a gateway: replies that the gateway has not taken yet, and expected replies of accepted commands. A command without room for its reply waits; after half of its time, the region refuses the command as resource_exhausted. At most half of {.reply_bytes}"`
	// Largest is the size of the largest reply that can be sent. Connection must be at least twice as
	// large. Default 1 MiB and the overhead. A reply is small if it has at most an eighth of Largest.
	Largest int
	// Unknown is the expected size of replies to a kind of command that has had no reply yet. Default
	// 64 KiB: enough for a first burst of large replies, and so little that hundreds of slow turns can
	// be in progress at a time.
	Unknown int
	// EntityShare is the share of Connection that the expected replies of one entity may take, and the
	// share of Waiting and WaitingBytes that the waiting commands for one entity may take on one
	// connection. So an entity whose turns do not end leaves the rest to other entities. An entity may
	// always have one command. Default 0.25: room for 128 replies of unknown size, and three such
	// entities leave room for others.
	EntityShare float64 `range:">0..1"`
	// Waiting and WaitingBytes bound the commands that wait for capacity, on all
	// connections together. Defaults 10,000 commands and 32 MiB.
	Waiting      int `range:"1.."`
	WaitingBytes int `range:"1.."`
	// WaitingShare is the share of its time that a command may wait for capacity. Then it is refused, while
	// its sender is still waiting for the answer. Default 0.5, as for the turns before a command.
	WaitingShare float64 `range:">0..1"`
}

// DefaultConfig returns the configuration that suits most regions.
func DefaultConfig() Config {
	return Config{
		Total: 256 << 20, Connection: 32 << 20, Largest: 1<<20 + Overhead, Unknown: 64 << 10,
		EntityShare: 0.25, Waiting: 10_000, WaitingBytes: 32 << 20, WaitingShare: 0.5,
	}
}

// Validate returns an error if a command could wait forever with this configuration.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	if c.Unknown < Overhead || c.Unknown > c.Largest {
		errs = append(errs, fmt.Errorf("replies: Unknown is %d, must be %d to %d, the largest reply", c.Unknown, Overhead, c.Largest))
	}
	if least := setting.Bytes(2 * c.Largest); c.Connection < least {
		errs = append(errs, setting.Errorf("link_reply_bytes", "is %s, must be at least %s, twice the longest reply, which would never find room", c.Connection, least))
	}
	if c.Total < 2*c.Connection {
		errs = append(errs, setting.Errorf("reply_bytes", "is %s, must be at least twice %s (%s), or one connection could take all of it", c.Total, setting.Key("link_reply_bytes"), c.Connection))
	}
	return errors.Join(errs...)
}

// entity returns how many bytes of replies one entity may owe on a connection.
func (c *Config) entity() int { return int(c.EntityShare * float64(c.Connection)) }

// Budget counts the replies of all connections of a region. It is not safe for
// concurrent use.
type Budget struct {
	cfg            Config
	unsent, owed   int // sums over the accounts
	waiting, bytes int // commands in all queues
}

// Account counts the replies of one connection.
type Account struct {
	unsent   int // replies that are not sent yet
	owed     int // expected for admitted commands without a reply
	entities entities
	freed    []*entity // entities with commands that may pass now
	unused   *entity   // a list of entity structs for reuse, because most entities have one command at a time
	// lastType has the hash of the type of the last command: many of one type follow each other.
	lastType struct {
		name sharding.EntityType
		hash uint64
	}
}

// entity counts the commands for one entity on a connection. While the entity owes more than its share, its
// commands wait in a list of their own. Then they *pass* to the lists of the connection.
type entity struct {
	id    uint64
	owed  int     // bytes expected for the commands that have passed, until they are answered
	small int     // commands that wait in Queue.small
	large int     // commands that wait in Queue.large
	held  int     // commands that wait until the entity owes less
	bytes int     // the size of all commands that wait
	freed bool    // the entity is in Account.freed
	next  *entity // in its bucket of Account.entities, or in Account.unused
}

func (e *entity) waiting() int { return e.small + e.large + e.held }

// entity returns the counts of an entity. Entities are distinguished by a hash of 64 bits, which is faster
// than two strings. Two entities with the same hash would count as one. Clients choose ids, so the hash has a
// seed that they do not know: else they could put many entities into one bucket.
func (a *Account) entity(of sharding.Entity) *entity {
	if a.lastType.name != of.Type {
		a.lastType.name, a.lastType.hash = of.Type, maphash.String(hashSeed, string(of.Type))*0x9e3779b97f4a7c15
	}
	id := maphash.String(hashSeed, string(of.ID)) ^ a.lastType.hash
	if e := a.entities.find(id); e != nil {
		return e
	}
	e := a.unused
	if e == nil {
		e = &entity{}
	}
	a.unused, e.next = e.next, nil
	e.id = id
	a.entities.add(e)
	return e
}

var hashSeed = maphash.MakeSeed()

// release subtracts bytes that an entity owes no longer.
func (a *Account) release(e *entity, bytes int) {
	e.owed -= bytes
	if e.held > 0 && !e.freed {
		e.freed = true
		a.freed = append(a.freed, e)
	}
	a.removeIdle(e)
}

// removeIdle removes the counts of an entity if it has no commands.
func (a *Account) removeIdle(e *entity) {
	if e.owed > 0 || e.waiting() > 0 || e.freed {
		return
	}
	a.entities.remove(e)
	*e = entity{next: a.unused}
	a.unused = e
}

// Ticket is the reservation of an admitted command, or of a refusal, for its reply.
type Ticket struct {
	account  *Account
	entity   *entity // nil: the ticket is for a refusal
	estimate *SizeEstimate
	expected int
}

// NewBudget returns an unused budget.
func NewBudget(cfg Config) *Budget { return &Budget{cfg: cfg} }

// Reserve reserves capacity for a refusal, or for the reply to a command that belongs to no queue. If
// there is not enough capacity, it returns false.
func (b *Budget) Reserve(a *Account, estimate *SizeEstimate) (Ticket, bool) {
	return b.reserve(a, nil, estimate)
}

// reserve reserves capacity for the reply to a command for an entity, if there is enough. If e is nil, the
// command belongs to no queue.
func (b *Budget) reserve(a *Account, e *entity, estimate *SizeEstimate) (Ticket, bool) {
	t := Ticket{account: a, entity: e, estimate: estimate, expected: b.expect(estimate)}
	mine, all := a.unsent+a.owed+t.expected, b.unsent+b.owed+t.expected
	limit := min(int(b.cfg.Connection), int(b.cfg.Total)-all)
	if !b.small(t.expected) {
		limit -= limit / 8
	}
	if mine > limit { //mutant:false reply-budget
		return Ticket{}, false
	}
	a.owed += t.expected
	b.owed += t.expected
	if e != nil {
		e.owed += t.expected
	}
	return t, true
}

// expect returns the estimate, at most Config.Largest.
func (b *Budget) expect(estimate *SizeEstimate) int {
	return min(estimate.Expect(b.cfg.Unknown), b.cfg.Largest)
}

// small reports whether a reply may use the capacity reserved for small ones.
func (b *Budget) small(expected int) bool { return expected <= b.cfg.Largest/8 }

// Expected returns the expected size of the reply.
func (t *Ticket) Expected() int { return t.expected }

// Grow raises the ticket to the size of a reply that is larger than expected. If there is no capacity, it
// returns false, and the reply must be dropped although the command ran. Otherwise wrong estimates could break
// the bound.
func (b *Budget) Grow(t *Ticket, size int) bool {
	more := size - t.expected
	if b.unsent+b.owed+more > int(b.cfg.Total) {
		return false
	}
	t.account.owed += more
	if t.entity != nil {
		t.entity.owed += more
	}
	b.owed += more
	t.expected = size
	return true
}

// Answered ends an admitted command. From now on its reply counts as unsent (see [Budget.SetUnsent]). The
// parameter size is the size of the reply; the estimate learns from it. 0: the reply is not typical of its
// kind of command.
func (b *Budget) Answered(t Ticket, size int) {
	t.account.owed -= t.expected
	if t.entity != nil {
		t.account.release(t.entity, t.expected)
	}
	b.owed -= t.expected
	if size > 0 {
		t.estimate.Learn(size)
	}
}

// SetUnsent sets how many bytes of replies a connection has not sent: 0 once it has ended.
func (b *Budget) SetUnsent(a *Account, bytes int) {
	b.unsent += bytes - a.unsent
	a.unsent = bytes
}

// Used returns how much of the budget is used.
func (b *Budget) Used() int { return b.unsent + b.owed }

// Used returns how much of the budget the connection uses.
func (a *Account) Used() int { return a.unsent + a.owed }
