package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/authority"
)

// peersAt returns where a gateway serves peers, as its log says.
func (r *rig) peersAt(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(r.processes[name].Log)
	must(t, err)
	found := regexp.MustCompile(`msg=listening .* peers=(\S+)`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("%s does not say where it serves peers", name)
	}
	return found[1]
}

// questions: gateways, whose management listeners want a token for everything, answer coordinators by their certificates,
// and no others but operators.
func questions(t *testing.T, r *rig) {
	ask := func(service, method, body string, into any) {
		t.Helper()
		a := do(http.DefaultClient, http.MethodPost, r.Admin()[0]+"/twirp/roost.admin.v1."+service+"/"+method, body, "Content-Type", "application/json")
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s %v", method, a.status, a.body, a.err)
		}
		must(t, json.Unmarshal([]byte(a.body), into))
	}
	if a := r.command(0, "/v1/Counter/works/Get", `{}`, r.load); a.status != http.StatusOK { // now it has something to tell
		t.Fatalf("a command: %d %s %v", a.status, a.body, a.err)
	}
	eventually(t, "the gateways are queried for an explanation", func() error {
		var explained struct {
			Parties []struct{ Role, Name, Result, Error string }
		}
		ask("Diagnosis", "Explain", `{"type":"Counter","id":"works"}`, &explained)
		answered := map[string]int{}
		for _, p := range explained.Parties {
			if p.Result == "answered" {
				answered[p.Role]++
			}
		}
		if answered["gateway"] != 2 || answered["region"] == 0 || answered["coordinator"] == 0 {
			return fmt.Errorf("%v", explained.Parties)
		}
		return nil
	})
	var slow struct {
		Gateways int
		Silent   []struct{ Region, Reason string }
	}
	ask("Admin", "Slow", `{}`, &slow)
	if slow.Gateways != 2 || len(slow.Silent) > 0 {
		t.Errorf("slow commands are reported by %d gateways, silent are %v", slow.Gateways, slow.Silent)
	}
	var examined struct {
		Processes int
		Advice    []struct{ Name, Text string }
	}
	ask("Admin", "Examine", `{}`, &examined)
	if examined.Processes != len(r.processes) {
		t.Errorf("%d of %d processes say how they are set up: %v", examined.Processes, len(r.processes), examined.Advice)
	}
	for _, a := range examined.Advice {
		for _, not := range []string{"process-silent", "tls-off", "peers-not-verified", "roles-not-required", "certificates-shared", "management-unguarded"} {
			if a.Name == not {
				t.Errorf("of the protected cluster it is said: %s: %s", a.Name, a.Text)
			}
		}
	}

	peers := r.peersAt(t, "gateway-1")
	uri := func(role string) []string { return []string{authority.URI(clusterName, role, "attacker")} }
	const slowPath = "/twirp/roost.inspection.v1.GatewayInspection/Slow"
	attacks := 0
	for _, path := range []string{slowPath, observePath} {
		refused := func(who string, a answer) {
			t.Helper()
			attacks++
			if a.status == http.StatusOK || strings.Contains(a.body, "another incarnation") || strings.Contains(a.body, "this is cluster") {
				t.Errorf("%s is answered at %s: %d %s", who, path, a.status, a.body)
			}
		}
		body, kind := `{"cluster":"`+clusterName+`"}`, []string{"Content-Type", "application/json"}
		at := "https://" + peers + path
		refused("a region", do(httpsClient(r.role(t, "region")), http.MethodPost, at, body, kind...))
		refused("a client with a certificate of the public authority", do(httpsClient(r.peer(t, r.public, authority.Request{Name: "attacker", URIs: uri("coordinator")})), http.MethodPost, at, body, kind...))
		refused("a coordinator of another cluster", do(httpsClient(r.peer(t, r.peers, authority.Request{Name: "attacker", URIs: []string{authority.URI("other", "coordinator", "attacker")}})), http.MethodPost, at, body, kind...))
		refused("plain TCP", do(http.DefaultClient, http.MethodPost, "http://"+peers+path, body, kind...))
		refused("the public listener", do(httpsClient(r.role(t, "coordinator")), http.MethodPost, r.gateway(0)+path, body, kind...))
		refused("the management listener without token", do(http.DefaultClient, http.MethodPost, "http://"+r.processes["gateway-1"].Management+path, body, kind...))
	}
	if a := do(httpsClient(r.role(t, "coordinator")), http.MethodPost, "https://"+peers+"/v1/Counter/works/Get", `{}`, "Content-Type", "application/json"); a.status == http.StatusOK {
		t.Errorf("the listener for peers takes commands: %s", a.body)
	}
	t.Logf("both gateways answer the coordinator; %d questions of others are refused", attacks)
}
