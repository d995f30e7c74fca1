package link

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// The benchmarks ask 10,000 entities over loopback, 64 bytes answered by 16,
// client and server in one process. "mux" is the baseline to compare with in
// the same run: what one would write by hand without any of the guarantees. It
// has one connection, one goroutine per caller, a string key to a locked map,
// and a writer that combines.
//
//	go test -bench . -benchmem -run '^$' ./libs/link

const benchEntities = 10_000

// entities is a sharded map with a counter per entity.
type entities [64]struct {
	sync.Mutex
	m map[string]*uint64
	_ [40]byte
}

func newEntities() *entities {
	e := new(entities)
	for i := range e {
		e[i].m = make(map[string]*uint64)
	}
	return e
}

func (e *entities) add(id string) uint64 {
	s := &e[shardingtest.ShardOf(sharding.EntityID(id), uint32(len(e)))]
	s.Lock()
	defer s.Unlock()
	n := s.m[id]
	if n == nil {
		n = new(uint64)
		s.m[id] = n
	}
	*n++
	return *n
}

// asker sends the ask of one caller, whose number is number.
type asker func(number uint64, id string, payload []byte)

func BenchmarkAsk(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("mux/%d", callers), func(b *testing.B) { benchAsk(b, callers, startMux) })
		b.Run(fmt.Sprintf("link/%d", callers), func(b *testing.B) { benchAsk(b, callers, startLink) })
	}
}

func benchAsk(b *testing.B, callers int, start func(b *testing.B, wake func(uint64)) asker) {
	done := make([]chan struct{}, callers)
	for i := range done {
		done[i] = make(chan struct{}, 1)
	}
	ask := start(b, func(number uint64) { done[number] <- struct{}{} })
	ids := benchIDs()
	payload := make([]byte, 64)
	var next atomic.Int64
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				begin := time.Now()
				ask(uint64(c), ids[i%benchEntities], payload)
				<-done[c]
				took[c] = append(took[c], time.Since(begin))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "asks/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

func benchIDs() []string {
	ids := make([]string, benchEntities)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%d", i)
	}
	return ids
}

// startLink opens a link to a region that answers in place.
func startLink(b *testing.B, wake func(uint64)) asker {
	l := benchLink(b, wake)
	return func(number uint64, id string, payload []byte) {
		c := benchCommand(number, id, payload)
		if err := l.Send(uint32(number), &c); err != nil {
			b.Error(err)
		}
	}
}

func benchCommand(number uint64, id string, payload []byte) Command {
	return Command{Number: number, Epoch: 1 << 32, Envelope: sharding.Envelope{
		Entity: sharding.Entity{Type: "Counter", ID: sharding.EntityID(id)}, Command: "Add", ID: "0198f2c4-7d1e-7abc",
		Encoding: sharding.Protobuf, Payload: payload,
	}}
}

func benchLink(b *testing.B, wake func(uint64)) *Link {
	ln := listen(b)
	all := newEntities()
	var batches sync.Pool
	s, err := NewServer(testConfig(testRegion), func(c *Conn, cs []Command) {
		as, _ := batches.Get().(*[]Answer)
		if as == nil {
			as = new([]Answer)
		}
		for i := range cs {
			var reply []byte
			n := all.add(string(cs[i].Envelope.Entity.ID))
			if !cs[i].Envelope.Tell {
				reply = binary.BigEndian.AppendUint64(make([]byte, 8, 16), n)
			}
			*as = append(*as, Answer{Number: cs[i].Number, Reply: sharding.Reply{Outcome: sharding.Executed, Encoding: sharding.Protobuf, Payload: reply}})
		}
		if err := c.SendBatch(*as); err != nil && !errors.Is(err, ErrDown) {
			b.Error(err)
		}
		clear(*as)
		*as = (*as)[:0]
		batches.Put(as)
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	hs := &http.Server{Handler: s}
	go func() { _ = hs.Serve(ln) }()
	up := make(chan *Link, 1)
	p, err := NewClient(testConfig(testGateway), sharding.NodeID{Addr: ln.Addr().String(), UID: testRegion.UID}, Events{
		Up:     func(l *Link) { up <- l },
		Down:   func(*Link, Down) {},
		Failed: func(err error, _ bool) { b.Error(err) },
		Answers: func(_ *Link, as []Answer) {
			for i := range as {
				wake(as[i].Number)
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close(); _ = s.Close(context.Background()); _ = hs.Close() })
	return get(b, up)
}

// BenchmarkTell sends commands without waiting for the answer; the
// region accepts each. "raw" is the same bytes one way, without a codec's
// checks and without acceptance.
func BenchmarkTell(b *testing.B) {
	b.Run("raw", benchRawTell)
	b.Run("link", func(b *testing.B) {
		var accepted atomic.Int64
		l := benchLink(b, func(uint64) { accepted.Add(1) })
		ids, payload := benchIDs(), make([]byte, 64)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			c := benchCommand(uint64(i), ids[i%benchEntities], payload)
			c.Envelope.Tell = true
			for err := l.Queue(uint32(i), &c); err != nil; err = l.Queue(uint32(i), &c) {
				if !errors.Is(err, ErrBackpressure) {
					b.Fatal(err)
				}
				runtime.Gosched()
			}
		}
		l.Flush()
		for accepted.Load() < int64(b.N) {
			runtime.Gosched()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tells/s")
	})
}

func benchRawTell(b *testing.B) {
	ln := listen(b)
	defer ln.Close()
	all, done := newEntities(), make(chan struct{})
	go func() {
		defer close(done)
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		br := bufio.NewReaderSize(nc, 64<<10)
		for {
			_, id, _, err := readMux(br)
			if err != nil {
				return
			}
			all.add(id)
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	ids, payload, buf := benchIDs(), make([]byte, 64), []byte(nil)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if buf = appendMux(buf, uint64(i), ids[i%benchEntities], payload); len(buf) > 60<<10 || i == b.N-1 {
			if _, err := nc.Write(buf); err != nil {
				b.Fatal(err)
			}
			buf = buf[:0]
		}
	}
	_ = nc.Close()
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tells/s")
}

// mux is the baseline's end of a connection: the first caller that finds the
// writer idle yields once and writes what all callers have appended meanwhile.
type mux struct {
	nc   net.Conn
	mu   sync.Mutex
	pend []byte
	free []byte
	busy bool
}

func (m *mux) send(number uint64, id string, payload []byte) error {
	m.mu.Lock()
	m.pend = appendMux(m.pend, number, id, payload)
	if m.busy {
		m.mu.Unlock()
		return nil
	}
	m.busy = true
	m.mu.Unlock()
	runtime.Gosched()
	for {
		m.mu.Lock()
		if len(m.pend) == 0 {
			m.busy = false
			m.mu.Unlock()
			return nil
		}
		buf := m.pend
		m.pend = m.free[:0]
		m.mu.Unlock()
		if _, err := m.nc.Write(buf); err != nil {
			return err
		}
		m.free = buf
	}
}

func appendMux(b []byte, number uint64, id string, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(12+len(id)+len(payload)))
	b = binary.BigEndian.AppendUint64(b, number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(id)))
	b = append(b, id...)
	return append(b, payload...)
}

func readMux(br *bufio.Reader) (number uint64, id string, payload []byte, err error) {
	var head [16]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return 0, "", nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-12)
	if _, err := io.ReadFull(br, body); err != nil {
		return 0, "", nil, err
	}
	n := binary.BigEndian.Uint32(head[12:])
	return binary.BigEndian.Uint64(head[4:]), string(body[:n]), body[n:], nil
}

func startMux(b *testing.B, wake func(uint64)) asker {
	ln := listen(b)
	all := newEntities()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		br, bw := bufio.NewReaderSize(nc, 64<<10), bufio.NewWriterSize(nc, 64<<10)
		var out []byte
		for {
			number, id, _, err := readMux(br)
			if err != nil {
				return
			}
			var reply [16]byte
			binary.BigEndian.PutUint64(reply[:], all.add(id))
			out = appendMux(out[:0], number, "", reply[:])
			_, _ = bw.Write(out)
			if br.Buffered() == 0 {
				_ = bw.Flush()
			}
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	m := &mux{nc: nc}
	go func() {
		br := bufio.NewReaderSize(nc, 64<<10)
		for {
			number, _, _, err := readMux(br)
			if err != nil {
				return
			}
			wake(number)
		}
	}()
	b.Cleanup(func() { _ = nc.Close(); _ = ln.Close() })
	return func(number uint64, id string, payload []byte) {
		if err := m.send(number, id, payload); err != nil {
			b.Error(err)
		}
	}
}
