package rpc

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// When the table changes, all watchers get the same rows; and when a term begins, all of them get the
// whole table. So rows are encoded once for all who get them, and only a few whole tables are sent at
// a time. Otherwise a thousand watchers of a large table would take gigabytes, and the coordinator
// would not find a processor.

const (
	// sharedRows is the minimum number of rows of an answer that is encoded once for all watchers.
	sharedRows = 8
	// keepEncoded is the time that encoded rows are kept.
	keepEncoded = time.Second
	// largeAnswer is the minimum size of an answer that needs a slot, in bytes.
	largeAnswer = 256 << 10
	// largeAtOnce is the number of slots: enough that a slow watcher does
	// not hold up the others, and few enough for a small machine.
	largeAtOnce = 16
)

// tables encodes the answers to watches.
type tables struct {
	slots chan struct{} // holds an element for each large answer that is being sent
	mu    sync.Mutex
	last  *encodedTable // nil: none
}

// encodedTable is an answer that is encoded once.
type encodedTable struct {
	version sharding.Version
	first   *sharding.Row // where the rows are
	rows    int
	once    sync.Once
	raw     []byte
}

func newTables() *tables { return &tables{slots: make(chan struct{}, largeAtOnce)} }

// encode encodes a table. The bytes of rows that are shared are attached as unknown fields, which are
// written as they are.
func (t *tables) encode(table control.TableChanged) *controlv1.Message {
	d := &table.Delta
	if len(d.Rows) < sharedRows {
		return wire.Encode(table)
	}
	t.mu.Lock()
	e := t.last
	if e == nil || e.first != &d.Rows[0] || e.rows != len(d.Rows) || e.version != d.Version {
		e = &encodedTable{version: d.Version, first: &d.Rows[0], rows: len(d.Rows)}
		t.last = e
		time.AfterFunc(keepEncoded, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.last == e {
				t.last = nil
			}
		})
	}
	t.mu.Unlock()
	e.once.Do(func() {
		raw, err := proto.Marshal(wire.Encode(table))
		if err == nil {
			e.raw = raw
		}
	})
	if e.raw == nil {
		return wire.Encode(table) // its writer reports the error
	}
	m := &controlv1.Message{}
	m.ProtoReflect().SetUnknown(e.raw)
	return m
}

// slot is the right of one request to send a large answer.
type slot struct{ taken bool }

type slotKey struct{}

// limitLargeAnswers limits the number of large answers that are sent concurrently: it releases the slot
// of a request when its answer is written.
func (t *tables) limitLargeAnswers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &slot{}
		defer func() {
			if s.taken {
				<-t.slots
			}
		}()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, s)))
	})
}

// waitForSlot waits for a slot if an answer is large.
func (t *tables) waitForSlot(ctx context.Context, answer *controlv1.Message) error {
	s, limited := ctx.Value(slotKey{}).(*slot)
	if !limited || len(answer.ProtoReflect().GetUnknown()) < largeAnswer {
		return nil
	}
	select {
	case t.slots <- struct{}{}:
		s.taken = true
		return nil
	case <-ctx.Done():
		return twirp.NewError(twirp.DeadlineExceeded, "too many large tables are being sent; try again")
	}
}
