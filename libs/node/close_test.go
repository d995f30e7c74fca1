package node

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/config"
)

// TestCloseAnswersWhoIsConnected: requests on connections that the system has taken, and the server has not accepted yet
// when it is closed, are answered. So are those that come soon on connections that have had none.
func TestCloseAnswersWhoIsConnected(t *testing.T) {
	if !backlogKnown {
		t.Skip("what the system has taken is not known here")
	}
	cfg := config.Default("")
	l, err := bind(context.Background(), "service.listen", "127.0.0.1:0", 1000, &cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.settleTimeout = time.Minute
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	l.leave()
	var conns []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	ask := func(conn net.Conn) {
		if _, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")); err != nil {
			t.Error(err)
		}
	}
	for _, conn := range conns[:10] {
		ask(conn)
	}
	go l.serve(func(err error) { t.Error(err) })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.close()
	}()
	for i, conn := range conns {
		if i >= 10 {
			ask(conn)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v", i, err)
		}
		res.Body.Close()
	}
	<-closed
}
