package rpc

import "sync"

// BatchLimits bound a [Batcher].
type BatchLimits struct {
	// Call is the largest number of messages in one call.
	Call int
	// CallBytes bounds the size of the messages in one call, unless there is only one.
	CallBytes int
	// Messages and Bytes bound the messages that wait for one address.
	Messages, Bytes int
}

// Batcher sends messages to many addresses, with one call in progress per address:
// messages that are added meanwhile are gathered for the next call. A message that
// already waits is not added again. Delivery is not guaranteed; the caller must repeat
// what matters.
type Batcher[K, M comparable] struct {
	limits  BatchLimits
	size    func(M) int
	send    func(to K, gathered []M)
	mu      sync.Mutex
	waiting map[K]*outgoing[M] // a key is present while a call to it is in progress
}

// outgoing holds the messages that wait for one address.
type outgoing[M comparable] struct {
	queue []M
	in    map[M]struct{} // the messages in queue
	bytes int
}

// NewBatcher returns a batcher. size returns the memory of a message, in bytes. send makes
// one call and returns when it is done; it is called on a goroutine of its own, one at a
// time per address.
func NewBatcher[K, M comparable](limits BatchLimits, size func(M) int, send func(to K, gathered []M)) *Batcher[K, M] {
	return &Batcher[K, M]{limits: limits, size: size, send: send, waiting: map[K]*outgoing[M]{}}
}

// Add queues a message. It never waits, and reports whether there was room.
func (b *Batcher[K, M]) Add(to K, m M) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, busy := b.waiting[to]
	if !busy {
		w = &outgoing[M]{in: map[M]struct{}{}}
		b.waiting[to] = w
		go b.work(to, w)
	}
	if _, waits := w.in[m]; waits {
		return true
	}
	size := b.size(m)
	if len(w.queue) >= b.limits.Messages || w.bytes+size > b.limits.Bytes {
		return false
	}
	w.queue = append(w.queue, m)
	w.in[m] = struct{}{}
	w.bytes += size
	return true
}

func (b *Batcher[K, M]) work(to K, w *outgoing[M]) {
	for {
		gathered := b.take(to, w)
		if len(gathered) == 0 {
			return
		}
		b.send(to, gathered)
	}
}

// take removes the messages for one call. If there are none, it removes the address.
func (b *Batcher[K, M]) take(to K, w *outgoing[M]) []M {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(w.queue) == 0 {
		delete(b.waiting, to)
		return nil
	}
	n := 0
	for bytes := 0; n < min(len(w.queue), b.limits.Call); n++ {
		if bytes += b.size(w.queue[n]); n > 0 && bytes > b.limits.CallBytes {
			break
		}
	}
	gathered := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	for _, m := range gathered {
		delete(w.in, m)
		w.bytes -= b.size(m)
	}
	return gathered
}
