package agent

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// A stream is a connection on which one node sends messages to another one, and gets nothing
// back. It begins as an HTTP request with an Upgrade. Then come frames: a length of four bytes,
// big endian, and a PostRequest of that length. A frame costs one write and one read, where a
// post costs both sides a request, an answer and several changes of goroutines.
const (
	streamMethod   = "Stream"
	streamProtocol = "roost-members/1"
	// streamVersion is the number that a node that accepts streams sends in its answers to posts.
	streamVersion = 1
	// maxFrame bounds a frame in bytes, and with it the memory of a stream to this node: there may be
	// thousands ([Config].Streams). What is longer is posted: posts are compressed, and count in the
	// memory that all requests together may take.
	maxFrame = 8 << 10
	// streamIdleTimeout is the silence after which the receiver closes a stream. It is longer than
	// senderIdleTimeout: as long as the sender lives, it closes first.
	streamIdleTimeout = 2 * senderIdleTimeout
)

// outStream is the sender's end of a stream.
type outStream struct {
	conn   net.Conn
	opened time.Time
	ended  chan struct{} // closed when the receiver has ended the connection
	buf    []byte
}

// openStream opens a stream to an address within the time of one post.
func (s *senders) openStream(addr string) (*outStream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.SendTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	// The deadline comes from ctx, which may also end earlier.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if err := upgrade(conn, addr); err != nil {
		_ = conn.Close()
		return nil, err
	}
	if !stop() {
		_ = conn.Close()
		return nil, ctx.Err()
	}
	o := &outStream{conn: conn, opened: time.Now(), ended: make(chan struct{})}
	s.wg.Go(func() {
		defer close(o.ended)
		_, _ = conn.Read(make([]byte, 1)) // the receiver sends nothing, so it is the end
	})
	return o, nil
}

func upgrade(conn net.Conn, addr string) error {
	request := "GET " + pb.ClusterPathPrefix + streamMethod + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: " + streamProtocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxAnswer)), nil)
	if err != nil {
		return fmt.Errorf("no HTTP response: %w", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("a stream is refused: %s", res.Status)
	}
	return nil
}

// write sends one request. It reports whether it did; if not, the stream is of no more use.
func (o *outStream) write(req *pb.PostRequest, within time.Duration) bool {
	b, err := proto.MarshalOptions{}.MarshalAppend(append(o.buf[:0], 0, 0, 0, 0), req)
	if err != nil {
		return false
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	o.buf = b
	_ = o.conn.SetWriteDeadline(time.Now().Add(within))
	_, err = o.conn.Write(b)
	return err == nil
}

// hasEnded reports whether the receiver has ended the stream.
func (o *outStream) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

func (o *outStream) close() { _ = o.conn.Close() }

// inStreams are the receiver's ends of the streams to this node.
type inStreams struct {
	limit int // how many there may be

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func (s *inStreams) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= s.limit {
		return false
	}
	if s.conns == nil {
		s.conns = map[net.Conn]bool{}
	}
	s.conns[conn] = true
	return true
}

// full reports whether no stream is accepted now.
func (s *inStreams) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || len(s.conns) >= s.limit
}

func (s *inStreams) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// close ends all streams. No other one is accepted.
func (s *inStreams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for conn := range s.conns { // order-free: all are closed
		_ = conn.Close()
	}
}

// serveStream receives the messages of a stream until it ends.
func (s service) serveStream(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.Header.Get("Upgrade") != streamProtocol {
		w.Header().Set("Upgrade", streamProtocol)
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this is for the messages of members: GET with Upgrade: "+streamProtocol, http.StatusUpgradeRequired)
		return
	}
	if s.a.streams.full() {
		http.Error(w, "there are too many streams already, or this node is stopping", http.StatusServiceUnavailable)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "streams need HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	if !s.a.streams.add(conn) {
		return
	}
	defer s.a.streams.remove(conn)
	_ = conn.SetDeadline(time.Now().Add(streamIdleTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+streamProtocol+"\r\n\r\n"); err != nil {
		return
	}
	err = s.receive(r.Context(), conn, rw.Reader)
	s.a.cfg.Log.Debug("a stream has ended", "peer", r.RemoteAddr, "error", err)
}

func (s service) receive(ctx context.Context, conn net.Conn, r *bufio.Reader) error {
	limits := s.a.cfg.limits()
	kind := (*pb.PostRequest)(nil).ProtoReflect().Descriptor()
	var buf []byte
	for {
		_ = conn.SetReadDeadline(time.Now().Add(streamIdleTimeout))
		var header [4]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(header[:])
		if n > maxFrame {
			return fmt.Errorf("a frame of %d bytes, at most %d are allowed", n, maxFrame)
		}
		if uint32(cap(buf)) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		req := &pb.PostRequest{}
		if err := errors.Join(limits.Check(buf, kind), proto.Unmarshal(buf, req)); err != nil {
			s.a.stats.refused.Add(1)
			return err
		}
		// Messages without room and messages of another version are lost. If the sender may not send the
		// other ones, the stream ends.
		_, err := s.Post(ctx, req)
		var refused twirp.Error
		if errors.As(err, &refused) && refused.Code() != twirp.Unavailable && refused.Meta("argument") != "messages" {
			return err
		}
	}
}
