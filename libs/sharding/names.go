package sharding

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Limits of names. They bound how much memory a peer can take with a name.
const (
	// MaxTypeLen is the longest entity type and command name, in bytes.
	MaxTypeLen = 128
	// MaxClusterLen is the longest name of a cluster, in bytes: it may be a label
	// in DNS.
	MaxClusterLen = 63
	// MaxAddrLen is the longest host:port, in bytes: a DNS name, a colon and a port.
	MaxAddrLen = 261
	// MaxIDLen is the longest entity id, in bytes.
	MaxIDLen = 256
	// MaxCommandIDLen is the longest idempotency key, in bytes.
	MaxCommandIDLen = 128
	// MaxPrincipalLen is the longest principal, in bytes: a URI such as a SPIFFE id, or
	// the subject of a token.
	MaxPrincipalLen = 256
	// MaxWakeNameLen is the longest name of a wake-up, in bytes.
	MaxWakeNameLen = 256
	// MaxChain is the number of entities that may wait for each other's answers in a row: a deeper
	// chain is most likely a mistake, and each wait holds an entity.
	MaxChain = 16
	// MaxShards is the largest number of shards of one type.
	MaxShards = 1 << 16
	// DefaultShards is the number of shards of a type that does not set it. A good
	// number is about ten times the largest number of regions that is planned for.
	DefaultShards = 1024
)

// MaxPayload is the longest payload of a command, and of a reply, in bytes. Links
// carry no longer one.
const MaxPayload = 1 << 20

// ErrBadName is wrapped by every refusal of a name, with the field and the fix.
var ErrBadName = errors.New("bad name")

// EntityType names a kind of entity: "Account".
type EntityType string

// EntityID names one entity of its type: "alice".
type EntityID string

// Entity is the address of one entity.
type Entity struct {
	Type EntityType
	ID   EntityID
}

// String is "Type/id".
func (e Entity) String() string { return string(e.Type) + "/" + string(e.ID) }

// Compare orders entities by type, then id.
func (e Entity) Compare(o Entity) int {
	return cmp.Or(cmp.Compare(e.Type, o.Type), cmp.Compare(e.ID, o.ID))
}

// ShardID names one shard: the unit that is owned, claimed and moved.
type ShardID struct {
	Type  EntityType
	Index uint32
}

// String is "Type/index".
func (s ShardID) String() string { return fmt.Sprintf("%s/%d", s.Type, s.Index) }

// Compare orders shards by type, then index.
func (s ShardID) Compare(o ShardID) int {
	return cmp.Or(cmp.Compare(s.Type, o.Type), cmp.Compare(s.Index, o.Index))
}

// Hash is xxh64 of the id with seed 0 (https://xxhash.com).
func (id EntityID) Hash() uint64 { return xxhash.Sum64String(string(id)) }

// NodeUID identifies one incarnation of a process: random at start, never 0, never
// reused. A restarted process is another node.
type NodeUID uint64

// NodeID is the address of a process and its incarnation.
type NodeID struct {
	Addr string // host:port of the service listener
	UID  NodeUID
}

// String is "host:port#uid" with the uid in hexadecimal.
func (n NodeID) String() string { return fmt.Sprintf("%s#%x", n.Addr, uint64(n.UID)) }

// IsZero reports whether n is the zero NodeID, which identifies no node.
func (n NodeID) IsZero() bool { return n == NodeID{} }

// Compare orders nodes by address (host as string, then port as number), then
// by uid.
func (n NodeID) Compare(o NodeID) int {
	if c := CompareAddr(n.Addr, o.Addr); c != 0 {
		return c
	}
	return cmp.Compare(n.UID, o.UID)
}

// CompareAddr orders host:port addresses by host as a string, then by port as
// a number.
func CompareAddr(a, b string) int {
	if a == b {
		return 0
	}
	ah, ap := splitAddr(a)
	bh, bp := splitAddr(b)
	if c := strings.Compare(ah, bh); c != 0 {
		return c
	}
	ap, bp = strings.TrimLeft(ap, "0"), strings.TrimLeft(bp, "0")
	return cmp.Or(cmp.Compare(len(ap), len(bp)), strings.Compare(ap, bp))
}

func splitAddr(a string) (host, port string) {
	i := strings.LastIndexByte(a, ':')
	if i < 0 {
		return a, ""
	}
	return a[:i], a[i+1:]
}

// ClusterID distinguishes clusters with the same name: it is drawn at random when the
// record of a cluster's lease is first written. Zero: not known.
type ClusterID uint64

// String is the number in 16 hexadecimal digits.
func (c ClusterID) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// Generation distinguishes the lives of a journal: it is drawn at random when the journal is
// created, and again when it is restored. Zero: not known.
type Generation uint64

// String is the number in 16 hexadecimal digits.
func (g Generation) String() string { return fmt.Sprintf("%016x", uint64(g)) }

// Other reports whether both generations are known and differ.
func (g Generation) Other(o Generation) bool { return g != 0 && o != 0 && g != o }

// JournalHeartbeat is the record that the active coordinator periodically writes to the journal. It
// names the cluster that owns the journal.
type JournalHeartbeat struct {
	Coordinator NodeID
	Cluster     ClusterID
	Term        Term
	N           uint64 // counts the heartbeats of the term
}

// Term counts acquisitions of the coordinator lease. Every acquisition by
// every incarnation has a term of its own, higher than all before it.
type Term uint32

// Epoch numbers one assignment of a shard to an owner: the term of the coordinator that
// made it in the upper 32 bits, a counter in the lower.
type Epoch uint64

// MakeEpoch is term<<32 | counter.
func MakeEpoch(t Term, counter uint32) Epoch { return Epoch(t)<<32 | Epoch(counter) }

// Term is the term of the coordinator that allocated the epoch.
func (e Epoch) Term() Term { return Term(e >> 32) }

// Counter is the epoch's number within its term.
func (e Epoch) Counter() uint32 { return uint32(e) }

// String is "term.counter".
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.Term(), e.Counter()) }

// CheckType returns an error unless s can be part of a URL path, a metric and a file
// name: letters, digits, '_', '-' and '.', starting with a letter, at most MaxTypeLen
// bytes. Entity types, commands and other names must pass it.
func CheckType(field, s string) error {
	if s == "" {
		return fmt.Errorf("%w: %s is empty", ErrBadName, field)
	}
	if len(s) > MaxTypeLen {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrBadName, field, len(s), MaxTypeLen)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')) {
			return fmt.Errorf("%w: %s %q must be letters, digits, '_', '-' or '.', starting with a letter", ErrBadName, field, clip(s))
		}
	}
	return nil
}

// reserved reports whether an entity type is reserved for Roost: "roost" and all that
// begin with "roost.", in upper or lower case. The coordinators' own stream in the
// journal has such a type; a user's type of that name could claim it and write to it.
func reserved(t EntityType) bool {
	first, _, _ := strings.Cut(string(t), ".")
	return strings.EqualFold(first, reservedType)
}

const reservedType = "roost"

// CheckEntityType returns an error for an entity type that [CheckType] refuses or
// that is reserved for Roost itself. Every type that enters Roost is checked by it.
func CheckEntityType(field string, t EntityType) error {
	if err := CheckType(field, string(t)); err != nil {
		return err
	}
	if reserved(t) {
		return fmt.Errorf("%w: %s %q is reserved for Roost itself, as is whatever begins with \"%s.\", in upper or lower case; choose another name, such as %q",
			ErrBadName, field, clip(string(t)), reservedType, clip("my."+string(t)))
	}
	return nil
}

// BuiltinPrefix begins the names of built-in commands: those that every entity type has, and
// that Roost itself executes. Authors cannot declare them, and the public API refuses them;
// operators send them.
const BuiltinPrefix = "roost."

// DeleteCommand is the built-in command that deletes an entity.
const DeleteCommand = BuiltinPrefix + "delete"

// SendAgainCommand and SendDropCommand are the built-in commands that send a dead letter of the
// entity again, or give it up, for operators. A pending send can be given up too. Both take a
// [DeadLetterInput].
const (
	SendAgainCommand = BuiltinPrefix + "send-again"
	SendDropCommand  = BuiltinPrefix + "send-drop"
)

// ReminderDropCommand is the built-in command that removes a reminder of the entity, for operators. It takes
// a [ReminderDropInput].
const ReminderDropCommand = BuiltinPrefix + "reminder-drop"

// ReminderDropInput is the payload of [ReminderDropCommand], as JSON.
type ReminderDropInput struct {
	Name string `json:"name"` // of the reminder
}

// DeadLetterInput is the payload of [SendAgainCommand] and [SendDropCommand], as JSON.
type DeadLetterInput struct {
	Record uint64 `json:"record"` // the number of the record that has sent it
	Place  uint16 `json:"place"`  // in Record.Sends, from 0
	// MayRepeat permits a send in doubt to have its effect a second time.
	MayRepeat bool `json:"may_repeat,omitempty"`
	// MayHaveRun permits dropping a pending send: its target may have executed it, or be executing
	// it now.
	MayHaveRun bool `json:"may_have_run,omitempty"`
}

// SentAgain is the reply to [SendAgainCommand], as JSON: the new send.
type SentAgain struct {
	Record uint64 `json:"record"`
	Place  uint16 `json:"place"`
}

// IsBuiltin reports whether a command's name belongs to a built-in command, or is reserved for one.
func IsBuiltin(command string) bool { return strings.HasPrefix(command, BuiltinPrefix) }

// CheckCommand returns an error for a command name that [CheckType] refuses or that is kept
// for built-in commands. Every command that enters Roost from outside, or from an author, is
// checked by it.
func CheckCommand(field, s string) error {
	if err := CheckType(field, s); err != nil {
		return err
	}
	if IsBuiltin(s) {
		return fmt.Errorf("%w: %s %q is kept for Roost itself, as is whatever begins with %q; choose another name", ErrBadName, field, clip(s), BuiltinPrefix)
	}
	return nil
}

// CheckCluster returns an error for a cluster name that [CheckType] refuses or that
// has more than MaxClusterLen bytes.
func CheckCluster(field, s string) error {
	if err := CheckType(field, s); err != nil {
		return err
	}
	if len(s) > MaxClusterLen {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrBadName, field, len(s), MaxClusterLen)
	}
	return nil
}

// CheckID returns an error for an entity id or idempotency key that is empty, longer
// than max bytes, not UTF-8, or contains control characters.
func CheckID(field, s string, max int) error {
	if fault := faultOf(s, max); fault != "" {
		return fmt.Errorf("%w: %s %s", ErrBadName, field, fault)
	}
	return nil
}

// faultOf returns the reason why CheckID refuses an id; empty: it does not.
func faultOf(s string, max int) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > max:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), max)
	case PrintableASCII(s): // the most frequent ones, quickly
		return ""
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return fmt.Sprintf("holds the control character %U", r)
		}
	}
	return ""
}

// badKey is the error about an idempotency key. It is an ErrBadName, but its text does not call the key a name.
type badKey string

func (e badKey) Error() string { return string(e) }

// Is reports whether target is ErrBadName.
func (badKey) Is(target error) bool { return target == ErrBadName }

func checkKey(id CommandID) error {
	if fault := faultOf(string(id), MaxCommandIDLen); fault != "" {
		return badKey("the idempotency key " + fault)
	}
	return nil
}

// CheckText returns an error for a name for people, such as a version or a zone, that [CheckID]
// refuses, or that has characters that are invisible or change how others are shown: control and
// format characters, and separators of lines.
func CheckText(field, s string, max int) error {
	if err := CheckID(field, s, max); err != nil {
		return err
	}
	for _, r := range s {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return fmt.Errorf("%w: %s holds %U, which is not shown, or changes how other characters are shown; leave it out", ErrBadName, field, r)
		}
	}
	return nil
}

// PrintableASCII reports whether s has no other bytes than printable ASCII.
func PrintableASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i]-0x20 >= 0x5f {
			return false
		}
	}
	return true
}

// Check returns an error unless the type and the id are allowed.
func (e Entity) Check() error {
	if err := CheckEntityType("type", e.Type); err != nil {
		return err
	}
	return CheckID("id", string(e.ID), MaxIDLen)
}

// Check returns an error unless all names of the command are allowed. It is called once where a
// command comes from outside the cluster: by the API of gateways, and by clients for their callers.
// All later code trusts the names. A command without key may have no ID yet.
func (e *Envelope) Check() error {
	if e.Keyed && strings.HasPrefix(string(e.ID), ReservedPrefix) {
		return reservedKey()
	}
	if e.Command == ProbeCommand {
		return fmt.Errorf("%w: command %q is for regions only", ErrBadName, e.Command)
	}
	return e.CheckFromPeer()
}

// CheckFromPeer is [Envelope.Check] for commands that come from another process of the cluster,
// which the decoder of links calls. Such a command may have a chain, and a key that a region has derived.
func (e *Envelope) CheckFromPeer() error {
	if err := e.Entity.Check(); err != nil {
		return err
	}
	if err := CheckType("command", e.Command); err != nil {
		return err
	}
	if e.Principal != "" {
		if err := CheckID("principal", e.Principal, MaxPrincipalLen); err != nil {
			return err
		}
	}
	if len(e.Chain) > MaxChain {
		return fmt.Errorf("%w: the chain has %d entities, at most %d are allowed", ErrBadName, len(e.Chain), MaxChain)
	}
	for _, c := range e.Chain {
		if err := c.Check(); err != nil {
			return err
		}
	}
	switch {
	case e.Keyed && strings.HasPrefix(string(e.ID), ReservedPrefix) && !derived(e.ID):
		return reservedKey()
	case e.Keyed:
		return checkKey(e.ID)
	case e.ID != "":
		return CheckID("command id", string(e.ID), MaxCommandIDLen)
	}
	return nil
}

func reservedKey() error {
	return badKey(fmt.Sprintf("the idempotency key begins with %q, which is reserved for Roost itself; choose another one", ReservedPrefix))
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
