package node

import "sync"

// Outbox carries messages to many addresses with one call under way per
// address: what is added meanwhile is gathered into the next call. It promises
// no delivery; that is for who adds to repeat.
type Outbox[K comparable, M any] struct {
	send    func(to K, gathered []M)
	mu      sync.Mutex
	waiting map[K][]M // a key is present while a call to it is under way
}

// NewOutbox makes an outbox. send makes one call and returns when it is over;
// it is called on a goroutine of its own, one at a time per address.
func NewOutbox[K comparable, M any](send func(to K, gathered []M)) *Outbox[K, M] {
	return &Outbox[K, M]{send: send, waiting: map[K][]M{}}
}

// Add hands a message over. It never waits.
func (o *Outbox[K, M]) Add(to K, m M) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting, busy := o.waiting[to]
	o.waiting[to] = append(waiting, m)
	if !busy {
		go o.work(to)
	}
}

func (o *Outbox[K, M]) work(to K) {
	for {
		o.mu.Lock()
		gathered := o.waiting[to]
		if len(gathered) == 0 {
			delete(o.waiting, to)
			o.mu.Unlock()
			return
		}
		o.waiting[to] = nil
		o.mu.Unlock()
		o.send(to, gathered)
	}
}
