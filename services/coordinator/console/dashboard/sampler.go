package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/encoding/protojson"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// maxViewers bounds the pages that may be open: each of them takes one connection of the listener.
	maxViewers = 64
	// maxNames bounds the names of regions that a map may refer to before it is sent anew. Regions that are gone have
	// names in it too.
	maxNames = 4096
	// keepAlive is the longest time without a byte: proxies close connections that seem dead.
	keepAlive = 15 * time.Second
	// sendTime bounds the time that a browser may take for one send.
	sendTime = 10 * time.Second
)

// sampler samples the admin API while at least one page is open. A page that cannot follow is sent the
// newest sample only: nothing is queued for it.
type sampler struct {
	admin Sampled
	every time.Duration

	mu      sync.Mutex
	viewers int
	end     context.CancelFunc // of the sampling; nil: no page is open
	last    *sample            // nil: none yet
	fresh   chan struct{}      // closed when last is replaced
}

// sample is the cluster at one moment. It is immutable.
type sample struct {
	members []byte // MembersResponse, as the admin API has it in JSON
	names   []string
	set     uint64 // another one: names were begun anew
	types   []mapType
	trouble string // why there is no sample
	standby bool
}

// mapType is the shards of a type: for each its owner, as a place in names or -1, and its phase.
type mapType struct {
	Type     string `json:"type"`
	Volatile bool   `json:"volatile,omitempty"`
	Owners   []int  `json:"owners"`
	Phases   string `json:"phases"`
}

// Phases of shards in a map.
const (
	unallocated = '-'
	unreadable  = 'u'
	starting    = 'a'
	serving     = 's'
	handingOff  = 'h'
)

// enter adds a page. It returns false if there are too many.
func (s *sampler) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers >= maxViewers {
		return false
	}
	if s.viewers++; s.viewers == 1 {
		ctx, end := context.WithCancel(context.Background())
		s.end, s.last, s.fresh = end, nil, make(chan struct{})
		go s.run(ctx)
	}
	return true
}

func (s *sampler) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers--; s.viewers == 0 {
		s.end()
	}
}

// newest returns the last sample, and a channel that is closed when there is another one.
func (s *sampler) newest() (*sample, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.fresh
}

func (s *sampler) run(ctx context.Context) {
	pause := time.NewTicker(s.every)
	defer pause.Stop()
	var before *sample
	for {
		now := s.take(ctx, before)
		s.mu.Lock()
		if ctx.Err() == nil { // otherwise others may look by now, with a run of their own
			s.last = now
			close(s.fresh)
			s.fresh = make(chan struct{})
		}
		s.mu.Unlock()
		if now.trouble == "" {
			before = now
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// take samples once. Names keep the places that they have in the sample before.
func (s *sampler) take(ctx context.Context, before *sample) *sample {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	members, err := s.admin.Members(ctx, &adminv1.MembersRequest{})
	var shards *adminv1.ShardsResponse
	if err == nil {
		shards, err = s.admin.Shards(ctx, &adminv1.ShardsRequest{})
	}
	out := &sample{}
	if err == nil {
		out.members, err = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(members)
	}
	if err != nil {
		var e twirp.Error
		if out.trouble = err.Error(); errors.As(err, &e) {
			out.trouble, out.standby = e.Msg(), e.Code() == twirp.FailedPrecondition
		}
		return out
	}
	if before != nil {
		out.set, out.names = before.set, before.names
	}
	if len(out.names) > maxNames {
		out.set, out.names = out.set+1, nil
	}
	out.fill(shards)
	return out
}

// fill makes the map.
func (s *sample) fill(shards *adminv1.ShardsResponse) {
	places := make(map[string]int, len(s.names))
	for i, n := range s.names {
		places[n] = i
	}
	names := s.names[:len(s.names):len(s.names)] // the names of the sample before are not written to
	phases := map[string][]byte{}
	of := map[string]int{}
	for _, t := range shards.Types {
		m := mapType{Type: t.Type, Volatile: t.Volatile, Owners: make([]int, t.Shards)}
		p := make([]byte, t.Shards)
		for i := range p {
			m.Owners[i], p[i] = -1, unallocated
		}
		of[t.Type], phases[t.Type] = len(s.types), p
		s.types = append(s.types, m)
	}
	for _, r := range shards.Shards {
		p, known := phases[r.Type]
		if !known || int(r.Index) >= len(p) {
			continue
		}
		p[r.Index] = phaseOf(r)
		if r.Region == "" {
			continue
		}
		place, ok := places[r.Region]
		if !ok {
			place = len(names)
			places[r.Region], names = place, append(names, r.Region)
		}
		s.types[of[r.Type]].Owners[r.Index] = place
	}
	for i := range s.types {
		s.types[i].Phases = string(phases[s.types[i].Type])
	}
	s.names = names
}

func phaseOf(s *adminv1.Shard) byte {
	switch {
	case s.Reason != "":
		return unreadable
	case s.Phase == "serving":
		return serving
	case s.Phase == "starting":
		return starting
	case s.Phase == "handing-off":
		return handingOff
	}
	return unallocated
}

// mapFrame is one update of the map for a page: all, or the changes since the last update.
type mapFrame struct {
	Names []string  `json:"names,omitempty"` // if there are others than before
	Types []mapType `json:"types,omitempty"` // all
	// Changes are places of a type, a shard and an owner, and the code of a phase.
	Changes [][4]int `json:"changes,omitempty"`
}

// since returns what has changed since a sample, nil if nothing has.
func (s *sample) since(before *sample) *mapFrame {
	f := &mapFrame{}
	if before == nil || before.set != s.set || !sameTypes(before.types, s.types) {
		f.Names, f.Types = s.names, s.types
		return f
	}
	if len(before.names) != len(s.names) {
		f.Names = s.names
	}
	for t := range s.types {
		old, now := &before.types[t], &s.types[t]
		for i := range now.Owners {
			if old.Owners[i] != now.Owners[i] || old.Phases[i] != now.Phases[i] {
				f.Changes = append(f.Changes, [4]int{t, i, now.Owners[i], int(now.Phases[i])})
			}
		}
	}
	if f.Names == nil && f.Changes == nil {
		return nil
	}
	return f
}

func sameTypes(a, b []mapType) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Type != b[i].Type || len(a[i].Owners) != len(b[i].Owners) {
			return false
		}
	}
	return true
}

// events sends the samples to a page, as server-sent events.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	if !d.mayRead(w, r) {
		return
	}
	if !d.sampler.enter() {
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d dashboards are open already; close one", maxViewers))
		return
	}
	defer d.sampler.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w: w, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // a listener limits the time of a request otherwise
	var sent, shown *sample                      // the last one, and the last one with a map
	idle := time.NewTimer(keepAlive)
	defer idle.Stop()
	for {
		now, fresh := d.sampler.newest()
		if now != nil && now != sent {
			if out.sample(shown, now); out.err != nil {
				return
			}
			if sent = now; now.trouble == "" {
				shown = now
			}
			idle.Reset(keepAlive)
		}
		select {
		case <-fresh:
		case <-idle.C:
			if out.write(": \n\n"); out.err != nil {
				return
			}
			idle.Reset(keepAlive)
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

// sample sends what has changed.
func (s *stream) sample(shown, now *sample) {
	switch {
	case now.standby:
		s.event("standby", mustJSON(now.trouble))
	case now.trouble != "":
		s.event("trouble", mustJSON(now.trouble))
	default:
		if f := now.since(shown); f != nil {
			s.event("map", mustJSON(f))
		}
		s.event("members", now.members)
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values that can be encoded are sent
	}
	return b
}

func (s *stream) event(name string, data []byte) {
	s.write("event: " + name + "\ndata: " + string(data) + "\n\n")
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(sendTime)) // a listener limits the whole answer otherwise
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.control.Flush()
	}
}
