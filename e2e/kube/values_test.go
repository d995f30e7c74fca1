package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// others has another value for every value of the chart, which must make a difference.
var others = map[string]any{
	"clusterName": "shop", "config": object{"log.level": "debug"}, "imagePullPolicy": "Always", "imagePullSecrets": []any{"registry"},
	"terminationGracePeriodSeconds": 120,
	"journal.secret":                "other", "journal.url": "postgres://other/roost", "journal.urlKey": "url", "journal.port": 5433,
	"journal.databases": []any{"2=postgres://other2/roost"}, "journal.databasesKey": "databases",
	"lease.url": "etcd://etcd:2379/roost", "lease.ttl": "3s", "lease.renew": "700ms",
	"networkPolicy.enabled": false, "networkPolicy.apiServerPorts": []any{8443}, "networkPolicy.extraEgressPorts": []any{4317},
	"tls.secrets": object{"coordinator": "a", "region": "b", "gateway": "c"}, "tls.identity": "spiffe://x/{role}", "tls.roles": "accept", "tls.public": "d",
	"coordinator.minRegions":        3,
	"region.command":                []any{"/region"},
	"gateway.shutdownDelay":         "6s",
	"gateway.service.type":          "NodePort",
	"gateway.service.port":          81,
	"gateway.service.annotations":   object{"a": "b"},
	"monitoring.podMonitor.enabled": true, "monitoring.podMonitor.interval": "15s", "monitoring.podMonitor.labels": object{"a": "b"},
	"monitoring.podMonitor.endpoint": object{"scheme": "https"}, "monitoring.podMonitor.from": []any{object{"ipBlock": object{"cidr": "10.0.0.0/8"}}},
	"monitoring.rules.enabled": true, "monitoring.rules.labels": object{"a": "b"},
	"monitoring.dashboard.enabled": true, "monitoring.dashboard.labels": object{"a": "b"}, "monitoring.dashboard.annotations": object{"a": "b"},
}

func init() {
	for _, role := range []string{"coordinator", "region", "gateway"} {
		for name, v := range map[string]any{ // order-free: a map
			"image": "registry.example/x:1", "replicas": 7, "minReadySeconds": 20, "resources": object{"limits": object{"memory": "3Gi"}},
			"args": []any{"--log.level=debug"}, "env": []any{object{"name": "A", "value": "b"}}, "volumes": []any{object{"name": "a", "emptyDir": object{}}},
			"volumeMounts": []any{object{"name": "a", "mountPath": "/a"}}, "podAnnotations": object{"a": "b"}, "serviceAccountAnnotations": object{"a": "b"},
			"spread": []any{object{"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}}, "affinity": object{"nodeAffinity": object{}},
			"nodeSelector": object{"a": "b"}, "tolerations": []any{object{"key": "a", "operator": "Exists"}}, "priorityClassName": "high",
		} {
			others[role+"."+name] = v
		}
	}
}

// TestChartValues: every value of values.yaml makes a difference, has a comment, and is in the schema, and the schema
// has no others.
func TestChartValues(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, chartDir+"/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var schema schema
	if err := json.Unmarshal([]byte(read(t, chartDir+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	walk(t, document.Content[0], &schema, "", "", seen)
	for path := range others { // order-free: failures
		if !seen[path] {
			t.Errorf("values.yaml has no %s", path)
		}
	}
	on := `monitoring: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}`
	for path := range seen { // order-free: failures
		before, after := "", nested(path, others[path])
		if strings.HasPrefix(path, "monitoring.") && !strings.HasSuffix(path, ".enabled") {
			before, after = on, merged(values(t, on), after)
		}
		if strings.HasPrefix(path, "tls.") && path != "tls.secrets" {
			before = `tls: {secrets: {coordinator: a, region: b, gateway: c}}`
			after = merged(values(t, before), after)
		}
		if path == "journal.urlKey" {
			after["journal"].(object)["url"] = ""
		}
		changed, err := render(after)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if reflect.DeepEqual(rendered(t, before), objects(t, changed)) {
			t.Errorf("it makes no difference that %s is %v", path, others[path])
		}
	}
}

type schema struct {
	Properties map[string]*schema
	Ref        string `json:"$ref"`
}

// walk gathers the values that have another value in others, with what is below them.
func walk(t *testing.T, n *yaml.Node, s *schema, path, comment string, seen map[string]bool) {
	var names []string
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		names = append(names, key.Value)
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		below := s.Properties[key.Value]
		if below == nil {
			t.Errorf("the schema has no %s", at)
			continue
		}
		// A comment is about the lines that follow it directly.
		if key.HeadComment != "" {
			comment = key.HeadComment
		}
		if comment == "" {
			t.Errorf("values.yaml says nothing of %s", at)
		}
		if _, leaf := others[at]; leaf {
			seen[at] = true
			continue
		}
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			t.Errorf("%s has no other value in this test", at)
			continue
		}
		walk(t, value, below, at, key.HeadComment, seen)
	}
	for name := range s.Properties { // order-free: failures
		if path+name != "global" && !slices.Contains(names, name) {
			t.Errorf("the schema has %s.%s, and values.yaml has not", path, name)
		}
	}
}

// nested is the values with one value.
func nested(path string, v any) map[string]any {
	first, rest, more := strings.Cut(path, ".")
	if more {
		return object{first: nested(rest, v)}
	}
	return object{first: v}
}

// merged is a with what b has more.
func merged(a, b object) object {
	out := maps.Clone(a)
	for k, v := range b { // order-free: a map
		x, isMap := out[k].(object)
		if y, both := v.(object); isMap && both {
			v = merged(x, y)
		}
		out[k] = v
	}
	return out
}

// TestChartMonitoring: the rules and the board match deploy/, and Prometheus is let in where its operator scrapes.
func TestChartMonitoring(t *testing.T) {
	all := rendered(t, full)
	var rules object
	if err := yaml.Unmarshal([]byte(read(t, root+"/deploy/alerts/roost.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	if d := compare("", rules, at(all["PrometheusRule roost"], "spec")); len(d) > 0 || len(rules) != 1 {
		t.Errorf("the rules differ: %v", d)
	}
	board, _ := at(all["ConfigMap roost-dashboard"], "data", "roost.json").(string)
	if strings.TrimSpace(board) != strings.TrimSpace(read(t, root+"/deploy/grafana/roost.json")) {
		t.Error("the board is another one")
	}
	monitor := all["PodMonitor roost"]
	endpoint := at(monitor, "spec", "podMetricsEndpoints", 0)
	if at(endpoint, "port") != "management" || at(endpoint, "path") != "/metrics" || at(endpoint, "scheme") != "https" {
		t.Errorf("Prometheus scrapes %v", endpoint)
	}
	selected, _ := at(monitor, "spec", "selector", "matchLabels").(object)
	job := fmt.Sprint(at(monitor, "spec", "jobLabel"))
	for _, name := range []string{"StatefulSet coordinator", "Deployment region", "Deployment gateway"} {
		labels, _ := at(all[name], "spec", "template", "metadata", "labels").(object)
		for k, v := range selected { // order-free: a conjunction
			if labels[k] != v {
				t.Errorf("%s is not scraped: its pods have %v", name, labels)
			}
		}
		if labels[job] != "roost" {
			t.Errorf("%s: the job is %v, and the alerts want roost", name, labels[job])
		}
	}
	for _, name := range []string{"members", "gateway"} {
		if p := at(all["NetworkPolicy "+name], "spec", "ingress", 1, "ports", 0, "port"); p != "management" {
			t.Errorf("NetworkPolicy %s keeps Prometheus out", name)
		}
		if more := at(rendered(t, "")["NetworkPolicy "+name], "spec", "ingress", 1); more != nil {
			t.Errorf("NetworkPolicy %s lets clients in by default: %v", name, more)
		}
	}
}

// TestChartNetwork: the policies name the ports of the values.
func TestChartNetwork(t *testing.T) {
	all := rendered(t, full)
	for name, want := range map[string][]any{"members-egress": {53, 53, 8443, 4317, 5433}, "gateway-egress": {53, 53, 8443, 4317}} {
		var got []any
		ports, _ := at(all["NetworkPolicy "+name], "spec", "egress", 1, "ports").([]any)
		for _, p := range ports {
			got = append(got, at(p, "port"))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name := range rendered(t, "networkPolicy: {enabled: false}") { // order-free: failures
		if strings.HasPrefix(name, "NetworkPolicy") {
			t.Errorf("%s is there", name)
		}
	}
}

// TestChartLease: coordinators may write Leases only if their lease is one.
func TestChartLease(t *testing.T) {
	for url, want := range map[string]bool{"kubernetes:": true, "etcd://etcd:2379/roost": false} {
		all := rendered(t, fmt.Sprintf("lease: {url: %q}", url))
		if all["Role roost-lease"] != nil != want || all["RoleBinding roost-lease"] != nil != want {
			t.Errorf("with the lease %s: %v", url, slices.Sorted(maps.Keys(all)))
		}
	}
}
