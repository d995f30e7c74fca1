package attack

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowds: a hundred clients that send the longest bodies at once get answers, and no process takes more memory than it
// may have, whether it asks for credentials or not. Each body takes memory at another place.
func crowds(t *testing.T, r *rig) {
	const clients, each = 100, 2
	const longest, payload = 4 << 20, 1 << 20 // service.max_body, gateway.max_body
	fill := func(length int, head, part, tail string) string {
		return head + strings.Repeat(part, (length-len(head)-len(tail))/len(part)) + tail
	}
	item := func(spaces int) string {
		return `{"type":"Counter","id":"crowd","command":"Rest","payload":"` + base64.StdEncoding.EncodeToString([]byte(`{}`+strings.Repeat(" ", spaces))) + `"},`
	}
	const last = `{"type":"Counter","id":"crowd","command":"Get","payload":"e30="}]}`
	const inJSON, inProtobuf = "application/json", "application/protobuf"
	type body struct{ what, media, text string }
	lists := []body{
		{"commands of 700 KiB", inJSON, fill(longest, `{"items":[`, item(700<<10), last)},
		{"commands of 4 KiB", inJSON, fill(longest, `{"items":[`, item(4<<10), last)},
		{"short commands", inJSON, fill(longest, `{"items":[`, item(0), last)},
		{"empty commands", inJSON, fill(longest, `{"items":[`, `{},`, `{}]}`)},
		{"spaces", inJSON, fill(longest, `{`, ` `, `}`)},
		{"empty commands in protobuf", inProtobuf, fill(longest, "", "\x0a\x00", "")},
	}
	single := []body{{"a command of 1 MiB", inJSON, fill(payload, `{`, " ", `}`)}}
	public := &tls.Config{RootCAs: r.public.Pool()}
	const many, one = "/twirp/roost.gateway.v1.Entities/AskMany", "/v1/Counter/crowd/Rest"
	region, coordinator := "https://"+r.processes["region-1"].Service, "https://"+r.processes["coordinator-1"].Service
	refusals := []int{400, 401, 412, 413, 429}
	for _, to := range []struct {
		what, url string
		config    *tls.Config
		bodies    []body
		answers   []int
	}{
		{"a gateway that asks for credentials", r.gateway(0) + many, public, lists, []int{401}},
		{"a gateway", r.gateway(1) + many, public, lists, append(refusals, 200)},
		{"a gateway, one command each", r.gateway(1) + one, public, single, append(refusals, 200)},
		{"a region", region + callPath, r.role(t, "gateway"), lists, refusals},
		{"a region, as a member", region + gossipPath, r.role(t, "region"), lists, refusals},
		{"a coordinator", coordinator + callPath, r.role(t, "region"), lists, refusals},
	} {
		var answered, broken atomic.Int64
		for _, b := range to.bodies {
			transport := &http.Transport{TLSClientConfig: to.config, MaxIdleConnsPerHost: clients}
			client := &http.Client{Timeout: time.Minute, Transport: transport}
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range each {
						switch a := do(client, http.MethodPost, to.url, b.text, "Content-Type", b.media); {
						case a.err != nil: // it was refused and closed before all was sent
							broken.Add(1)
						case !slices.Contains(to.answers, a.status):
							t.Errorf("%s answers %s with %d %.200s", to.what, b.what, a.status, a.body)
						default:
							answered.Add(1)
						}
					}
				})
			}
			all.Wait()
			transport.CloseIdleConnections()
		}
		if answered.Load() == 0 {
			t.Errorf("%s answers nothing", to.what)
		}
		t.Logf("%s: %d bodies are answered, and %d connections were closed first", to.what, answered.Load(), broken.Load())
	}
}
