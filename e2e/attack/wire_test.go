package attack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

const (
	callPath   = "/twirp/roost.control.v1.Control/Call"
	gossipPath = "/twirp/roost.cluster.v1.Cluster/Post"
	// observePath is served by the listeners of gateways for peers, too.
	observePath = "/twirp/roost.inspection.v1.Observer/Observe"
)

// target is a listener at which peers are served, with a path that takes messages and a certificate that may send them.
type target struct {
	process, addr, path string
	peer                *tls.Config
}

// gatewayTarget is the listener of a gateway that answers the questions of coordinators (gateway.peer_listen).
func (r *rig) gatewayTarget(t *testing.T, name string) target {
	t.Helper()
	return target{name, r.peersAt(t, name), observePath, r.role(t, "coordinator")}
}

// unknownTypes: what is of no known kind is refused, and no memory is taken for what is only announced.
func unknownTypes(t *testing.T, r *rig) {
	region := r.role(t, "region")
	unknown := &controlv1.Message{}
	unknown.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 4000, protowire.BytesType), []byte("x")))
	call, err := proto.Marshal(&controlv1.CallRequest{Cluster: clusterName, Message: unknown})
	must(t, err)
	const times = 16             // so often each length is announced
	const most = times * 1 << 20 // bytes for all of it: with TLS and the process's own work, less than 1 MiB for 2 GiB
	for _, to := range []target{
		{"coordinator-1", r.processes["coordinator-1"].Service, callPath, region}, {"region-1", r.processes["region-1"].Service, callPath, region}, r.gatewayTarget(t, "gateway-1"),
	} {
		name := to.process
		bodies := map[string]string{
			"an unknown kind": string(call), "no message": "", "a claimed length of 2 GiB": "\x0a\xff\xff\xff\xff\x07abc", "an endless number": strings.Repeat("\xff", 64),
		}
		for what, body := range bodies {
			if a := do(httpsClient(to.peer), http.MethodPost, "https://"+to.addr+to.path, body, "Content-Type", "application/protobuf"); a.status < 400 {
				t.Errorf("%s takes %s: %d %s %v", name, what, a.status, a.body, a.err)
			}
		}
		claims := r.allocated(t, name, func() {
			for range times {
				do(httpsClient(to.peer), http.MethodPost, "https://"+to.addr+to.path, bodies["a claimed length of 2 GiB"], "Content-Type", "application/protobuf")
			}
		})
		lengths := []string{"2147483648", "9223372036854775807", "99999999999999999999"}
		announced := r.allocated(t, name, func() {
			var all sync.WaitGroup
			for i := range times {
				all.Go(func() {
					length := lengths[i%len(lengths)]
					text, err := raw(to.peer, to.addr, []byte("POST "+to.path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/protobuf\r\nContent-Length: "+length+"\r\n\r\n0123456789"))
					if err != nil || strings.Contains(text, "HTTP/1.1 200") {
						t.Errorf("%s answers an announced length of %s: %.200q, %v", name, length, text, err)
					}
				})
			}
			all.Wait()
		})
		if claims > most || announced > most {
			t.Errorf("%s has allocated %d KiB for %d lengths of 2 GiB in messages, and %d KiB for as many in headers", name, claims>>10, times, announced>>10)
		}
		t.Logf("%s: unknown kinds are refused; for each length of 2 GiB and more it allocates %d KiB if it is in a message, %d KiB in a header, with TLS and all", name, claims/times>>10, announced/times>>10)
	}
}

// zip compresses a text so often.
func zip(t *testing.T, content []byte, times int) []byte {
	t.Helper()
	for range times {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		must(t, err)
		_, err = w.Write(content)
		must(t, err)
		must(t, w.Close())
		content = b.Bytes()
	}
	return content
}

// bombs: a small compressed body that unpacks to much is refused before it is unpacked.
func bombs(t *testing.T, r *rig) {
	const most = 8 << 20 // bytes for one of them, with all else that the process does meanwhile
	region := r.role(t, "region")
	targets := []target{r.gatewayTarget(t, "gateway-2")}
	for name, path := range map[string]string{"coordinator-1": gossipPath, "region-1": gossipPath, "region-2": callPath} {
		targets = append(targets, target{name, r.processes[name].Service, path, region})
	}
	large := zip(t, make([]byte, 257<<20), 1)
	part := zip(t, make([]byte, 8<<20), 1)
	for what, body := range map[string][]byte{
		"a body of 257 MiB": large, "bombs in bombs": zip(t, large, 2), "64 members": bytes.Repeat(part, 64), "a broken one": large[:len(large)/2],
		"a member behind a small one": slices.Concat(zip(t, []byte("x"), 1), large),
	} {
		for _, to := range targets {
			var a answer
			taken := r.allocated(t, to.process, func() {
				a = do(httpsClient(to.peer), http.MethodPost, "https://"+to.addr+to.path, string(body), "Content-Type", "application/protobuf", "Content-Encoding", "gzip")
			})
			if a.status < 400 || taken > most {
				t.Errorf("%s answers %s of %d bytes with %d, and allocates %d KiB for it", to.process, what, len(body), a.status, taken>>10)
			}
			t.Logf("%s in %d bytes at %s: %d, %d KiB were allocated", what, len(body), to.process, a.status, taken>>10)
		}
	}
	if a := r.command(1, "/v1/Counter/bomb/Add", string(large), ""); a.status == 200 {
		t.Error("a gateway takes a compressed body as a command")
	}
	if all := r.members(t); strings.Contains(all, `"reachable":false`) || strings.Count(all, `"status":"up"`) < 3 {
		t.Errorf("the membership has changed: %s", all)
	}
}

// brokenParsers: garbage on one connection ends that connection only, and a panic in an entity ends that command
// only.
func brokenParsers(t *testing.T, r *rig) {
	gateway := r.role(t, "gateway")
	upgrade := "GET /link HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: roost-link/1\r\n\r\n"
	var links sync.WaitGroup
	for what, garbage := range map[string]string{
		"ones": strings.Repeat("\xff", 4096), "zeros": strings.Repeat("\x00", 4096), "text": strings.Repeat("GET / HTTP/1.1\r\n\r\n", 100),
	} {
		for _, name := range []string{"region-1", "region-2"} {
			links.Go(func() {
				conn, err := tls.Dial("tcp", r.processes[name].Service, gateway)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if _, err := conn.Write([]byte(upgrade)); err != nil {
					t.Error(err)
					return
				}
				// Garbage comes after the answer: who has not read it loses it when the region closes the connection.
				answers := bufio.NewReader(conn)
				if res, err := http.ReadResponse(answers, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
					t.Errorf("%s gives no link: %v %v", name, res, err)
					return
				}
				_, wrote := conn.Write([]byte(garbage)) // the link may end before all of it is written
				if text, err := io.ReadAll(answers); os.IsTimeout(wrote) || os.IsTimeout(err) {
					t.Errorf("%s keeps a link that brings %s, and says %.200q", name, what, text)
				}
			})
		}
	}
	links.Wait()
	const secret = "canary-of-the-handler"
	for _, command := range []string{"Panic", "Fail"} {
		a := r.command(1, "/v1/Counter/broken/"+command, `{"text":"`+secret+`"}`, "")
		if a.status != 500 || strings.Contains(a.body, secret) || !strings.Contains(a.body, "reference") && !strings.Contains(a.body, "ref") {
			t.Errorf("%s: %d %s", command, a.status, a.body)
		}
		if after := r.command(1, "/v1/Counter/broken/Add", `{"delta":0}`, ""); after.status != 200 {
			t.Errorf("after %s, the entity answers %d %s", command, after.status, after.body)
		}
	}
	if !strings.Contains(r.logs(t), secret) {
		t.Error("the region's log has no text of the failure")
	}
	t.Log("garbage on links ends these links; a panic and an error of a handler reach the log, and callers get a reference")
}
