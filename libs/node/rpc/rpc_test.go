package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// script is a receiver that records what it gets and returns a prepared answer.
type script struct {
	from   sharding.NodeID
	got    []control.Message
	answer control.Message
}

func (s *script) Receive(_ context.Context, from sharding.NodeID, msgs []control.Message, size int) error {
	s.from, s.got = from, append(s.got, msgs...)
	return nil
}

func (s *script) Answer(_ context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error) {
	s.from, s.got = from, append(s.got, m)
	return s.answer, nil
}

// TestMessagesArrive: messages arrive in order and with their sender. One that is not for
// the receiver is refused together with the others of its request, and an answer of the
// wrong kind is an error.
func TestMessagesArrive(t *testing.T) {
	self, peer := sharding.NodeID{Addr: "c:1", UID: 7}, &script{}
	srv := httptest.NewServer(Handler("dev", sharding.NodeID{UID: 9}, control.Region, nil, peer, silent))
	defer srv.Close()
	c := Client{Cluster: "dev", Self: self, Reach: Via(srv.Client(), nil), Timeout: time.Minute}
	to := sharding.NodeID{Addr: strings.TrimPrefix(srv.URL, "http://"), UID: 9}
	orders := []control.Message{control.HandOff{Term: 3, Epoch: 1}, control.HostShard{Term: 3, Epoch: 2}, control.HandOff{Term: 3, Epoch: 3}}
	if err := c.Send(t.Context(), to, orders); err != nil || !reflect.DeepEqual(peer.got, orders) || peer.from != self {
		t.Fatalf("%v sent %v, error %v", peer.from, peer.got, err)
	}
	peer.answer = control.TableChanged{Delta: sharding.TableDelta{Version: sharding.Version{Term: 1, N: 2}}}
	if m, err := c.Call(t.Context(), to.Addr, control.WatchTable{}); err != nil || !reflect.DeepEqual(m, peer.answer) {
		t.Errorf("answered with %v, error %v", m, err)
	}
	peer.got = nil
	for _, msgs := range [][]control.Message{{orders[0], control.ShardStopped{}}, {control.WatchTable{}}} {
		if err := c.Send(t.Context(), to, msgs); err == nil || peer.got != nil {
			t.Errorf("%v arrive as %v", msgs, peer.got)
		}
	}
	for _, answer := range []control.Message{control.RegisterAck{}, nil} {
		peer.answer = answer
		if m, err := c.Call(t.Context(), to.Addr, control.WatchTable{}); err == nil || m != nil {
			t.Errorf("answered with %v: %v, error %v", answer, m, err)
		}
	}
}

// TestUnknownKind: messages of a kind that only newer processes know are left out, and the
// log says so; the others arrive.
func TestUnknownKind(t *testing.T) {
	var text bytes.Buffer
	peer, self := &script{}, sharding.NodeID{UID: 9}
	h := Handler("dev", self, control.Region, nil, peer, slog.New(slog.NewTextHandler(&text, nil)))
	srv := httptest.NewServer(h)
	defer srv.Close()
	c := Client{Cluster: "dev", Self: sharding.NodeID{Addr: "c:1", UID: 7}, Reach: Via(srv.Client(), nil), Timeout: time.Minute}
	order := control.HandOff{Term: 3, Epoch: 1}
	to := sharding.NodeID{Addr: strings.TrimPrefix(srv.URL, "http://"), UID: 9}
	for range 2 { // an empty message has the kind of none, as one of a newer version has
		if err := c.Send(t.Context(), to, []control.Message{nil, order}); err != nil {
			t.Fatal(err)
		}
	}
	srv.Close()
	if !reflect.DeepEqual(peer.got, []control.Message{order, order}) {
		t.Errorf("got %v", peer.got)
	}
	if strings.Count(text.String(), "level=WARN") != 1 || !strings.Contains(text.String(), "from=c:1") {
		t.Errorf("logged is %s", text.String())
	}
}

// silent is a log without a reader.
var silent = slog.New(slog.DiscardHandler)

// TestEarlierTerms: a message of an earlier term is not sent after one of a later term.
func TestEarlierTerms(t *testing.T) {
	kept := newest([]control.Message{
		control.HostShard{Term: 1}, control.JournalReport{}, control.HandOff{Term: 2}, control.HostShard{Term: 1}, control.HostShard{Term: 2},
	})
	want := []control.Message{control.JournalReport{}, control.HandOff{Term: 2}, control.HostShard{Term: 2}}
	if !reflect.DeepEqual(kept, want) {
		t.Errorf("kept are %v", kept)
	}
}

// TestOneCallFitsTheBody: the largest call is within the body limit of a listener, however
// long the names are.
func TestOneCallFitsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = 4 << 20
		long := sharding.NodeID{Addr: strings.Repeat("a", 260), UID: 1 << 63}
		largest, release := 0, make(chan struct{})
		o := NewOutbox(t.Context(), func(_ context.Context, _ sharding.NodeID, msgs []control.Message) error {
			largest = max(largest, proto.Size(&controlv1.SendRequest{
				Cluster: strings.Repeat("c", 64), From: wire.ToNode(long), To: 1 << 63, Messages: wire.EncodeAll(msgs),
			}))
			<-release
			return nil
		}, silent, noop.Int64Counter{})
		for i := range uint32(2 * OutboxLimits.Call) {
			o.Send(long, control.HostRefused{
				Shard: sharding.ShardID{Type: sharding.EntityType(strings.Repeat("T", 2000)), Index: i}, Epoch: 1 << 63, Above: 1 << 63,
			})
		}
		close(release)
		synctest.Wait()
		if largest == 0 || largest > body {
			t.Errorf("a call has %d bytes, want at most %d", largest, body)
		}
	})
}

// TestAnotherListener: the error of a call to a listener of another kind says so.
func TestAnotherListener(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler()) // as a management listener
	defer srv.Close()
	c := &Client{Cluster: "dev", Reach: Via(srv.Client(), nil), Timeout: time.Minute}
	if _, err := c.Call(t.Context(), srv.Listener.Addr().String(), control.WatchTable{}); err == nil || !strings.Contains(err.Error(), "is not the service listener of a coordinator or region") {
		t.Error(err)
	}
}

// TestCalls: a call is answered once; calls are bounded per process and in total.
func TestCalls(t *testing.T) {
	c := NewCalls(maxCallsOfOne + 2)
	one, other, third := sharding.NodeID{UID: 1}, sharding.NodeID{UID: 2}, sharding.NodeID{UID: 3}
	got := make(chan Answer, 100)
	first := c.Hold(one, got)
	for range maxCallsOfOne - 1 {
		c.Hold(one, got)
	}
	if c.Hold(one, got) != 0 {
		t.Error("the calls of one process are not bounded")
	}
	for range 2 {
		if c.Hold(other, got) == 0 {
			t.Error("the calls of one process keep out another's")
		}
	}
	if c.Hold(third, got) != 0 {
		t.Error("the calls of all are not bounded")
	}
	c.Answer(first, Answer{Msg: control.ShutdownAck{}})
	c.Answer(first, Answer{Msg: control.ShutdownAck{}})
	c.Answer(0, Answer{})
	if len(got) != 1 {
		t.Errorf("a call is answered %d times", len(got))
	}
	next := c.Hold(third, got)
	c.Forget(next)
	c.Forget(next)
	if c.Hold(third, got) == 0 {
		t.Error("a call that was given up still counts")
	}
	for call := range control.Call(100) {
		c.Forget(call)
	}
	if c.Len() != 0 || len(c.of) != 0 {
		t.Errorf("%d calls wait, of %v", c.Len(), c.of)
	}
}

// TestGarbage: a listener refuses whatever is not a message.
func TestGarbage(t *testing.T) {
	peer := &script{}
	srv := httptest.NewServer(Handler("dev", sharding.NodeID{UID: 9}, control.Coordinator, nil, peer, silent))
	defer srv.Close()
	for _, path := range []string{"Send", "Call"} {
		for _, body := range []string{"", "\xff", "\x0a\x03dev", "\x0a\x03dev\x22\x00", "\x0a\x03dev\x22\x03\xfa\x3f\x00"} {
			res, err := http.Post(srv.URL+PathPrefix+path, "application/protobuf", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			// A Send may be empty, and have messages of unknown kinds.
			if fine := path == "Send" && strings.HasPrefix(body, "\x0a\x03dev"); (res.StatusCode == 200) != fine {
				t.Errorf("%s %x: status %d", path, body, res.StatusCode)
			}
		}
	}
	if peer.got != nil {
		t.Errorf("got %v", peer.got)
	}
}

// TestTablesAreShared: rows that many get are encoded once, arrive like others, and are not kept; of
// large tables only a few are sent at a time.
func TestTablesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newTables()
		table := control.TableChanged{Delta: sharding.TableDelta{Version: sharding.Version{Term: 1, N: 2}, Full: true}}
		for i := range uint32(10_000) {
			table.Delta.Rows = append(table.Delta.Rows, sharding.Row{Shard: sharding.ShardID{Type: "T", Index: i}, Owner: sharding.NodeID{Addr: "r:1", UID: 1}, Epoch: 1, Phase: sharding.Serving})
		}
		first, second := shared.encode(table), shared.encode(table)
		if &first.ProtoReflect().GetUnknown()[0] != &second.ProtoReflect().GetUnknown()[0] {
			t.Error("a table is encoded twice")
		}
		other := table
		other.Delta.Rows = slices.Clone(table.Delta.Rows[:sharedRows])
		for _, want := range []control.TableChanged{table, other} {
			raw, err := proto.Marshal(&controlv1.CallResponse{Message: shared.encode(want)})
			if err != nil {
				t.Fatal(err)
			}
			var response controlv1.CallResponse
			if err := proto.Unmarshal(raw, &response); err != nil {
				t.Fatal(err)
			}
			if got, err := wire.Decode(response.Message); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d rows arrive as others, error %v", len(want.Delta.Rows), err)
			}
		}
		time.Sleep(2 * keepEncoded)
		if shared.last != nil {
			t.Error("a table is kept")
		}

		release, sent := make(chan struct{}), 0
		h := shared.limitLargeAnswers(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := shared.waitForSlot(r.Context(), first); err == nil {
				sent++ // they begin one after the other
				<-release
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range largeAtOnce + 5 {
			calls.Go(func() {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
			})
			synctest.Wait()
		}
		if sent != largeAtOnce {
			t.Errorf("%d large tables are sent at a time", sent)
		}
		cancel() // who still waits gives up
		close(release)
		calls.Wait()
		if len(shared.slots) > 0 || sent != largeAtOnce {
			t.Errorf("%d slots are left taken, %d tables were sent", len(shared.slots), sent)
		}
	})
}
