package sim

// network carries datagrams between hosts: they may be lost, doubled, late and
// out of order. Links between gateways and regions are streams, see link.go.
type network struct {
	w *World
	// cut counts the faults that stop traffic from one host to another.
	cut [hosts][hosts]int
	// ended counts, for each host, the processes that ended before what they had just sent left them.
	ended [hosts]int
}

// The hosts of a run. Journal and lease store have hosts of their own.
const (
	coordinators = 2
	regions      = 4 // the last one joins late, or never
	gateways     = 2
	firstRegion  = coordinators
	firstGateway = firstRegion + regions
	journalHost  = firstGateway + gateways
	leaseHost    = journalHost + 1
	hosts        = leaseHost + 1
)

// blocked reports whether nothing gets from one host to another.
func (n *network) blocked(from, to int) bool { return n.cut[from][to] > 0 }

// delay draws how long a packet is on its way.
func (n *network) delay() int64 { return n.drawDelay(n.w.weather.Tail) }

// frameDelay is the same for a frame of a stream: one that is late holds up all
// later ones, so that few may be.
func (n *network) frameDelay() int64 { return n.drawDelay(n.w.weather.Tail / 40) }

func (n *network) drawDelay(tail float64) int64 {
	w := n.w
	d := w.dice("delay")
	t := 50_000 + d.exp(w.weather.Delay)
	if d.chance(tail) {
		w.mark("packet delayed for long")
		t += d.between(0, w.weather.TailMax)
	}
	return t
}

// send brings a datagram to a host, maybe. arrive runs there at that time.
func (n *network) send(from, to int, arrive func()) {
	w := n.w
	d := w.dice("net")
	ended, arrives := n.ended[from], arrive
	arrive = func() {
		if n.ended[from] != ended {
			w.mark("datagram ended with its process")
			return
		}
		arrives()
	}
	if n.blocked(from, to) {
		w.mark("datagram cut off")
		return
	}
	if d.chance(w.weather.Loss) {
		w.mark("datagram lost")
		return
	}
	w.after(n.delay(), arrive)
	if d.chance(w.weather.Dup) {
		w.mark("datagram doubled")
		w.after(n.delay(), arrive)
	}
}

// loseUnsent loses what is on its way from a host: its process has ended before that left it.
func (n *network) loseUnsent(from int) { n.ended[from]++ }

// block stops traffic in the given directions until the returned function
// runs.
func (n *network) block(pairs [][2]int) (heal func()) {
	for _, p := range pairs {
		n.cut[p[0]][p[1]]++
	}
	return func() {
		for _, p := range pairs {
			n.cut[p[0]][p[1]]--
		}
	}
}
