package control

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Message is one message of the control plane. The set is closed, see [Kinds].
type Message interface {
	// About returns what the message is about.
	About() About
	// name returns the name of the type.
	name() string
}

// Name returns the name of a message's kind.
func Name(m Message) string {
	if m == nil {
		return "nothing"
	}
	return m.name()
}

// About is the subject of a message; fields that do not apply are zero. Code that carries messages without
// knowing their kinds uses only this.
type About struct {
	// Term is the term in which a coordinator sent the message; 0: the message does not come
	// from a coordinator that is active.
	Term sharding.Term
	// Shard and Epoch are the shard, and the epoch at which the message counts.
	Shard sharding.ShardID
	Epoch sharding.Epoch
	// Phase is a phase of the shard's row at that epoch. The row has reached it when a
	// coordinator sends the message; a row beyond it is not changed by the message of a
	// region. 0: the message counts in every phase.
	Phase sharding.Phase
	// Rows are those that the message shows.
	Rows []sharding.Row
}

// Call names a call that waits for its answer, at the process that answers it.
type Call uint64

// Roles of processes.
type Role uint8

const (
	Coordinator Role = 1 << iota
	Region
	Gateway
)

// Anybody is the role of a process with an unknown role: it may be any.
const Anybody = Coordinator | Region | Gateway

// String is "a coordinator", "a region" or "a gateway".
func (r Role) String() string {
	switch r {
	case Coordinator:
		return "a coordinator"
	case Region:
		return "a region"
	case Gateway:
		return "a gateway"
	case Coordinator | Region:
		return "a coordinator or region"
	case Anybody:
		return "a process of any role"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Kind describes all messages of one type.
type Kind struct {
	// Zero is an empty message of the kind.
	Zero Message
	// From and To are the roles that send and receive it. An answer goes to whichever
	// process called.
	From, To Role
	// Answers are the kinds of its answers if it is a call.
	Answers []Message
}

// kindOf returns the kind of a message, or nil if it only answers calls.
func kindOf(m Message) *Kind {
	for i := range Kinds {
		if Name(Kinds[i].Zero) == Name(m) {
			return &Kinds[i]
		}
	}
	return nil
}

// IsCall reports whether the sender of the message waits for an answer.
func IsCall(m Message) bool {
	k := kindOf(m)
	return k != nil && k.Answers != nil
}

// CheckOneWay refuses a message that is not a one-way message for a role.
func CheckOneWay(to Role, m Message) error {
	if k := kindOf(m); k == nil || k.To&to == 0 || k.Answers != nil {
		return fmt.Errorf("%s is not a one-way message for %s", Name(m), to)
	}
	return nil
}

// CheckCall refuses a message that is not a call of a role.
func CheckCall(to Role, m Message) error {
	if k := kindOf(m); k == nil || k.To&to == 0 || k.Answers == nil {
		return fmt.Errorf("%s is not a call that %s answers", Name(m), to)
	}
	return nil
}

// senders returns the roles that send a message.
func senders(m Message) Role {
	k := kindOf(m)
	if k == nil {
		return 0
	}
	//mutant:false sender-order
	if h, is := m.(HostShard); is {
		if h.Released { // the region that had the shard
			return Region
		}
		return Coordinator
	}
	return k.From
}

// Receivers returns the roles of the processes that may receive all of these messages, sent together; 0:
// there are none.
func Receivers(msgs ...Message) Role {
	roles := Anybody
	for _, m := range msgs {
		to := Role(0)
		if w, is := m.(WatchTable); is && w.Copy {
			to = Region
		} else if is {
			to = Coordinator
		} else if k := kindOf(m); k != nil {
			to = k.To
		}
		roles &= to
	}
	return roles
}

// Identity identifies a process of a cluster.
type Identity struct {
	// Roles are those that it may have: one if that is known; 0: nothing is known of it.
	Roles Role
	// Node is its node.name. Empty: not known.
	Node string
}

// String is such as "a region" or "the node region-1, a region".
func (i Identity) String() string {
	if i.Node == "" {
		return i.Roles.String()
	}
	return "the node " + i.Node + ", " + i.Roles.String()
}

// MaySpeakAs refuses a process with the identity i, by its certificate, that speaks for another process, or as if it
// were another one. What is not known of either is not compared.
func (i Identity) MaySpeakAs(other Identity) error {
	//mutant:do sender-name return nil
	if other.Roles&^i.Roles != 0 || i.Node != "" && other.Node != "" && i.Node != other.Node {
		return fmt.Errorf("the certificate is for %s, and cannot speak for %s", i, other)
	}
	return nil
}

// CheckSender refuses a message that its sender may not send: by is the identity in the sender's
// certificate, and as is the membership's identity for the node in whose name it sends the message.
func CheckSender(by, as Identity, m Message) error {
	may := senders(m)
	if may&by.Roles == 0 || as.Roles != 0 && may&as.Roles == 0 {
		return fmt.Errorf("%s is not a message of %s", Name(m), by)
	}
	if r, is := m.(Register); is && by.Node != "" && r.Name != by.Node { //mutant:false sender-register
		return fmt.Errorf("the certificate is for %s, and cannot register the node %.100q", by, r.Name)
	}
	return by.MaySpeakAs(as)
}

// CheckAnswer refuses what does not answer the call.
func CheckAnswer(call, answer Message) error {
	k := kindOf(call)
	if k == nil || !slices.ContainsFunc(k.Answers, func(a Message) bool { return Name(a) == Name(answer) }) {
		return fmt.Errorf("%s is not an answer to %s", Name(answer), Name(call))
	}
	return nil
}
