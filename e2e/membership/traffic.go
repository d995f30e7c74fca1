package membership

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
)

// traffic counts messages and their bytes as the agent would post them, each
// in a post of its own: it batches those that wait for the same node, so its
// own figures are a little lower. In large clusters encoding costs more than
// the protocol, so only one message in oneIn, drawn at random, is encoded, and
// counts for all of them.
type traffic struct {
	oneIn    int
	rng      *rand.Rand
	began    time.Time
	messages int
	bytes    int // of bodies
	zip      *gzip.Writer
	zip2     length
}

// oneIn returns the number of messages per weighed one in a cluster of n nodes.
func oneIn(n int) int {
	if n <= 100 {
		return 1
	}
	return n / 25 // there are the more of them
}

// postOverhead is the number of bytes that HTTP adds to each post and its answer, headers
// of both, measured between real agents without TLS (TestPostOverhead). An agent
// that posts several messages at once pays it once.
const postOverhead = 244

// rate is per node and second: bytes of bodies, and what HTTP adds to them.
type rate struct{ Messages, Bytes, HTTP float64 }

func (r rate) String() string {
	return fmt.Sprintf("%.1f messages, %.0f B and %.0f B of HTTP", r.Messages, r.Bytes, r.HTTP)
}

type length int

func (l *length) Write(p []byte) (int, error) {
	*l += length(len(p))
	return len(p), nil
}

func (t *traffic) reset(now time.Time) { t.began, t.messages, t.bytes = now, 0, 0 }

func (t *traffic) count(from sharding.NodeID, s gossip.Send) {
	t.messages++
	if t.oneIn == 1 || t.rng.IntN(t.oneIn) == 0 {
		t.bytes += t.oneIn * t.size(from, s)
	}
}

// zipFrom is the default of agent.Config.GzipFrom.
const zipFrom = 4 << 10

// size is the size of the post's body.
func (t *traffic) size(from sharding.NodeID, s gossip.Send) int {
	post := agent.NewPost("roost", from, []gossip.Send{s})
	n := proto.Size(post)
	if n < zipFrom {
		return n
	}
	raw, err := proto.Marshal(post)
	if err != nil {
		panic(err) // it has just been made
	}
	if t.zip == nil {
		t.zip, err = gzip.NewWriterLevel(&t.zip2, gzip.BestSpeed)
		if err != nil {
			panic(err)
		}
	}
	t.zip2 = 0
	t.zip.Reset(&t.zip2)
	_, _ = t.zip.Write(raw) // to memory
	_ = t.zip.Close()
	return int(t.zip2)
}

// rate is the sent volume since the last reset, per node and second.
func (t *traffic) rate(now time.Time, nodes int) rate {
	per := float64(nodes) * max(now.Sub(t.began).Seconds(), 0.1)
	return rate{float64(t.messages) / per, float64(t.bytes) / per, postOverhead * float64(t.messages) / per}
}
