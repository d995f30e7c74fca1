package node

import "sync"

// OutboxLimits bound an [Outbox].
type OutboxLimits struct {
	// Call is the largest number of messages in one call.
	Call int
	// CallBytes bounds the size of the messages in one call, unless there is only one.
	CallBytes int
	// Messages and Bytes bound the messages that wait for one address.
	Messages, Bytes int
}

// Outbox sends messages to many addresses, with one call in progress per address:
// messages that are added meanwhile are gathered for the next call. A message that
// already waits is not added again. Delivery is not guaranteed; the caller must repeat
// what matters.
type Outbox[K, M comparable] struct {
	limits  OutboxLimits
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

// NewOutbox returns an outbox. size returns the memory of a message, in bytes. send makes
// one call and returns when it is done; it is called on a goroutine of its own, one at a
// time per address.
func NewOutbox[K, M comparable](limits OutboxLimits, size func(M) int, send func(to K, gathered []M)) *Outbox[K, M] {
	return &Outbox[K, M]{limits: limits, size: size, send: send, waiting: map[K]*outgoing[M]{}}
}

// Add queues a message. It never waits, and reports whether there was room.
func (o *Outbox[K, M]) Add(to K, m M) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, busy := o.waiting[to]
	if !busy {
		w = &outgoing[M]{in: map[M]struct{}{}}
		o.waiting[to] = w
		go o.work(to, w)
	}
	if _, waits := w.in[m]; waits {
		return true
	}
	size := o.size(m)
	if len(w.queue) >= o.limits.Messages || w.bytes+size > o.limits.Bytes {
		return false
	}
	w.queue = append(w.queue, m)
	w.in[m] = struct{}{}
	w.bytes += size
	return true
}

func (o *Outbox[K, M]) work(to K, w *outgoing[M]) {
	for {
		gathered := o.take(to, w)
		if len(gathered) == 0 {
			return
		}
		o.send(to, gathered)
	}
}

// take removes the messages for one call. If there are none, it removes the address.
func (o *Outbox[K, M]) take(to K, w *outgoing[M]) []M {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(w.queue) == 0 {
		delete(o.waiting, to)
		return nil
	}
	n := 0
	for bytes := 0; n < min(len(w.queue), o.limits.Call); n++ {
		if bytes += o.size(w.queue[n]); n > 0 && bytes > o.limits.CallBytes {
			break
		}
	}
	gathered := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	for _, m := range gathered {
		delete(w.in, m)
		w.bytes -= o.size(m)
	}
	return gathered
}
