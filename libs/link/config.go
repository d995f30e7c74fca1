package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Constants of the protocol.
const (
	// Path is the HTTP path at which servers are mounted on the service port.
	Path = "/link"
	// Protocol is the token of the HTTP Upgrade header.
	Protocol = "roost-link/1"
	// MinVersion is the lowest frame version that this package supports.
	MinVersion = 1
	// MaxLanes is the largest number of lanes of one link.
	MaxLanes = 64
	// MaxTraceLen is the longest trace context, in bytes; longer ones are left
	// out. A traceparent of version 00 has 55.
	MaxTraceLen = 128
	// MaxMessageLen is the longest error message of a reply, in bytes; longer
	// ones are truncated.
	MaxMessageLen = 1024
	// MaxTimeLeft is the longest remaining time of a deadline; longer ones are
	// shortened.
	MaxTimeLeft = 365 * 24 * time.Hour
	// headerRoom is more than a frame needs in addition to its payload.
	headerRoom = 8 << 10
	// maxNames is the number of names per direction that a connection sends by number.
	maxNames = 1024
	// maxHandshake is the longest handshake frame and the longest HTTP response
	// header, in bytes. It bounds what an unknown peer can make us read.
	maxHandshake = 4 << 10
	// maxBatch is the largest number of messages in one callback.
	maxBatch = 1024
	// maxGathered is the number of bytes that may gather for a sender that will write them itself,
	// before the writer goroutine starts: about one write.
	maxGathered = 64 << 10
	// maxRounds is the number of writes in a row that a sender does on behalf of others that send
	// meanwhile, before the writer takes over: the sender may have its answer by then.
	maxRounds = 16
	// maxWrite is the most bytes of one write of a connection that cannot report
	// partial progress: one TLS record.
	maxWrite = 16 << 10
	// maxSpare is the largest buffer that is kept for reuse, so that the memory of
	// a burst is released.
	maxSpare = 4 << 20
	// lingerTime is the time that a failed connection is still read, so that both sides receive
	// each other's last frames.
	lingerTime = time.Second
)

// Errors of this package. ErrDown, ErrBackpressure and ErrTooLarge from a Send
// mean that no byte of the frame left this process.
var (
	// ErrRefused: the other side refused the link; the text gives the reason.
	ErrRefused = errors.New("link refused")
	// ErrOtherNode: another incarnation answers at this address. It is wrapped
	// together with ErrRefused.
	ErrOtherNode = errors.New("another node answers")
	// ErrDown: the link is closed or closing.
	ErrDown = errors.New("link down")
	// ErrBackpressure: the buffer of the lane is full.
	ErrBackpressure = errors.New("link full")
	// ErrTooLarge: the payload is larger than one of the two sides allows.
	ErrTooLarge = errors.New("payload too large")
	// ErrMalformed: the other side sent something that is not a valid frame.
	ErrMalformed = errors.New("malformed frame")
	// ErrSilent: nothing was received for Config.Timeout.
	ErrSilent = errors.New("peer silent")
	// ErrSlowReader: the client took none of its answers for Config.Timeout.
	ErrSlowReader = errors.New("answers not read")
	// ErrSuperseded: the same client opened this lane again.
	ErrSuperseded = errors.New("superseded by a newer connection of its lane")
)

// Stalled is the error of a connection that was closed because the other side made
// no progress for too long.
type Stalled struct {
	Err     error         // ErrSilent or ErrSlowReader
	Pending int           // bytes that waited to be written
	For     time.Duration // there was no progress for at least this long
}

// Error returns all fields as text.
func (e *Stalled) Error() string {
	return fmt.Sprintf("%v for %v, %d bytes pending", e.Err, e.For, e.Pending)
}

// Unwrap returns Err.
func (e *Stalled) Unwrap() error { return e.Err }

// Config configures either side. Start from [DefaultConfig].
type Config struct {
	// Cluster is the name of the cluster; both sides must agree. No default.
	Cluster string
	// Self is this process. UID must be set; Addr may be empty on a gateway.
	Self sharding.NodeID
	// Generation returns the generation of a journal: on a server its own journal, on a client the
	// one that holds its route table. 0: not known. The server refuses a client with another
	// generation. Default nil: not compared.
	Generation func() sharding.Generation
	// Lanes is the number of connections per link; used by clients. Default: one
	// per four processors, 1 to 4. One goroutine at a time decodes what arrives on
	// a lane and executes its quick commands. With few processors more lanes only
	// make batches smaller: with two processors, one lane carries 10 to 15 % more
	// than two.
	Lanes int
	// MaxPayload is the largest payload of a command or reply in bytes. Default
	// 1 MiB. The smaller of the two sides' limits applies.
	MaxPayload int
	// MaxPendingMessages is the number of messages per connection that may wait to be written. At
	// this limit a client's Send is refused, and a server reads no more commands. Default 8,192:
	// about ten milliseconds of full load; more only adds delay.
	MaxPendingMessages int
	// MaxPendingBytes is the same limit in bytes, for a client only. A server
	// buffers answers of any size; its user must bound them ([Conn.Unsent]).
	// Default 16 MiB.
	MaxPendingBytes int
	// ReadBuffer is the size of the read buffer per connection in bytes.
	// Default 64 KiB. It grows while a larger frame arrives.
	ReadBuffer int
	// MaxLinks bounds the connections of a server. Default 4,096.
	MaxLinks int
	// Beat is the interval of heartbeats on a connection that sends nothing else.
	// Default 5 s.
	Beat time.Duration
	// Timeout is the longest time that a peer may be silent, or that a client may take none of the
	// answers that wait for it, before the connection is closed; closing may take one Beat more. On
	// Linux, the bytes that a client's system acknowledges count as progress, elsewhere the bytes
	// that a write has taken, with TLS in steps of 16 KiB. A system whose receive buffer was full
	// acknowledges again only when a good part of it is free: on Linux a sixteenth, and at least
	// one segment, which is some 100 KiB with the buffer sizes it uses for large answers. A client
	// that reads slowly is not disconnected unless it reads less than such a step within Timeout.
	// Default 15 s: three heartbeats.
	Timeout time.Duration
	// HandshakeTimeout bounds opening one connection, dialling included.
	// Default 3 s.
	HandshakeTimeout time.Duration
	// RetryMin and RetryMax are the first and the longest pause between
	// attempts to open a link. Defaults 50 ms and 2 s; each pause is randomly
	// shortened by up to a quarter.
	RetryMin, RetryMax time.Duration
	// Dial opens a connection for a client; it must return when ctx is done. The
	// default dials TCP. For TLS it must return a tls.Conn that offers HTTP/1.1
	// only.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// DefaultConfig returns the configuration with every default set; the caller must
// set Cluster and Self.
func DefaultConfig() Config {
	return Config{
		Lanes:              min(max(1, runtime.GOMAXPROCS(0)/4), 4),
		MaxPayload:         sharding.MaxPayload,
		MaxPendingMessages: 1 << 13,
		MaxPendingBytes:    16 << 20,
		ReadBuffer:         64 << 10,
		MaxLinks:           4096,
		Beat:               5 * time.Second,
		Timeout:            15 * time.Second,
		HandshakeTimeout:   3 * time.Second,
		RetryMin:           50 * time.Millisecond,
		RetryMax:           2 * time.Second,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
	}
}

// Validate returns an error that names every invalid field and how to correct it.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("link: "+format, args...)) }
	if err := sharding.CheckCluster("Cluster", c.Cluster); err != nil {
		bad("%w", err)
	}
	if c.Self.UID == 0 {
		bad("Self.UID is 0, set the uid of this process")
	}
	if len(c.Self.Addr) > sharding.MaxAddrLen {
		bad("Self.Addr has %d bytes, at most %d are allowed", len(c.Self.Addr), sharding.MaxAddrLen)
	}
	if c.Lanes < 1 || c.Lanes > MaxLanes {
		bad("Lanes is %d, set 1 to %d", c.Lanes, MaxLanes)
	}
	if c.MaxPayload < 1 || c.MaxPayload > 1<<30 {
		bad("MaxPayload is %d, set 1 byte to 1 GiB", c.MaxPayload)
	}
	if c.MaxPendingBytes < c.MaxPayload+headerRoom {
		bad("MaxPendingBytes is %d, set at least MaxPayload + %d", c.MaxPendingBytes, headerRoom)
	}
	if c.MaxPendingMessages < 1 {
		bad("MaxPendingMessages is %d, set at least 1", c.MaxPendingMessages)
	}
	if c.ReadBuffer < 4<<10 {
		bad("ReadBuffer is %d, set at least 4096", c.ReadBuffer)
	}
	if c.MaxLinks < 1 {
		bad("MaxLinks is %d, set at least 1", c.MaxLinks)
	}
	if c.Beat <= 0 {
		bad("Beat is %v, set more than 0", c.Beat)
	}
	if c.Timeout < 2*c.Beat {
		bad("Timeout is %v, set at least twice Beat (%v), or one lost beat cuts the link", c.Timeout, c.Beat)
	}
	if c.HandshakeTimeout <= 0 {
		bad("HandshakeTimeout is %v, set more than 0", c.HandshakeTimeout)
	}
	if c.RetryMin <= 0 || c.RetryMax < c.RetryMin {
		bad("RetryMin is %v and RetryMax %v, set 0 < RetryMin <= RetryMax", c.RetryMin, c.RetryMax)
	}
	if c.Dial == nil {
		bad("Dial is nil, start from DefaultConfig")
	}
	return errors.Join(errs...)
}
