package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

const (
	root     = "../.."
	chartDir = root + "/deploy/helm"
	// namespace is the namespace of the manifests.
	namespace = "roost"
)

// TestMain silences Helm, which tells at each load that it follows symbolic links: those to the alerts and the board.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// object is an object of Kubernetes, as YAML has it.
type object = map[string]any

// render returns what Helm makes of the chart with values, as YAML.
func render(values map[string]any) (string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return "", err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "any", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			texts = append(texts, files[name])
		}
	}
	return strings.Join(texts, "\n---\n"), nil
}

// objects are the documents of a text, by kind and name.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if o == nil {
			continue // a file with nothing but a comment
		}
		name := at(o, "kind").(string) + " " + at(o, "metadata", "name").(string)
		if all[name] != nil {
			t.Fatalf("there are two of %s", name)
		}
		all[name] = o
	}
}

// at follows a path of keys and indexes; it is nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// values reads values as a user writes them.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func rendered(t *testing.T, text string) map[string]object {
	t.Helper()
	out, err := render(values(t, text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return objects(t, out)
}

// manifests are the files of a directory of deploy/, as one text.
func manifests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	var all []string
	for _, f := range files {
		all = append(all, read(t, f))
	}
	return strings.Join(all, "\n---\n")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// full has all that is off by default, and other values than the defaults.
const full = `
clusterName: shop
config: {log.format: text, log.level: debug, shutdown.timeout: 80s}
imagePullSecrets: [registry]
terminationGracePeriodSeconds: 120
journal: {secret: shop-journal, url: "", urlKey: url, port: 5433}
tls: {secrets: {coordinator: coordinator-tls, region: region-tls, gateway: gateway-tls}, public: public-tls}
lease: {url: "postgres://roost@db.example.net/roost?passfile=/etc/roost-journal/pgpass", ttl: 4s, renew: 800ms}
networkPolicy: {apiServerPorts: [8443], extraEgressPorts: [4317]}
coordinator: {replicas: 5, args: [--allocation.strategy=load], spread: [{topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}
region:
  command: [/service]
  args: [--region.types=Counter]
  env: [{name: ROOST_APP_VERSION, value: "1.2.3"}]
  volumes: [{name: more, emptyDir: {sizeLimit: 2Mi}}]
  volumeMounts: [{name: more, mountPath: /more, readOnly: true}]
  podAnnotations: {a.example/b: c}
  serviceAccountAnnotations: {a.example/b: c}
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: region}}}]}}
  nodeSelector: {disk: fast}
  tolerations: [{key: only, operator: Exists}]
  priorityClassName: high
gateway: {replicas: 4, shutdownDelay: 20s, service: {type: LoadBalancer, port: 8000, annotations: {a.example/b: c}}}
monitoring:
  podMonitor: {enabled: true, labels: {release: prometheus}, endpoint: {scheme: https}}
  rules: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true, annotations: {folder: Roost}}
`

// TestChartLint: helm lint finds nothing, whatever is on.
func TestChartLint(t *testing.T) {
	for name, text := range map[string]string{"defaults": "", "full": full} {
		t.Run(name, func(t *testing.T) {
			for _, m := range lint.RunAll(chartDir, values(t, text), namespace).Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
}

// different lists the differences between the chart and the manifests, by kind, name and path. Anything else that differs
// is a failure, and so is a line here that is not true any more.
var different = map[string]string{
	"Namespace roost": "Helm makes the namespace, or its caller",
	"Deployment region.spec.template.metadata.annotations":       "pods are replaced when the configuration changes",
	"Deployment gateway.spec.template.metadata.annotations":      "pods are replaced when the configuration changes",
	"StatefulSet coordinator.spec.template.metadata.annotations": "pods are replaced when the configuration changes",
	"Service gateway.spec.type":                                  "it can be chosen; ClusterIP is the default of Kubernetes",
}

// TestChartIsTheManifests: with its default values, the chart makes the objects of deploy/kubernetes.
func TestChartIsTheManifests(t *testing.T) {
	same(t, objects(t, manifests(t, "kubernetes")), rendered(t, ""), different)
	if at(rendered(t, "")["Service gateway"], "spec", "type") != "ClusterIP" {
		t.Error("the Service of the gateway is not what Kubernetes makes of the manifest's")
	}
}

// protected are values that make the chart render the objects of deploy/kubernetes-tls.
const protected = `tls: {secrets: {coordinator: roost-coordinator-tls, region: roost-region-tls, gateway: roost-gateway-tls}}`

// TestChartIsTheOverlay: with the Secrets of certificates, the chart makes the objects of deploy/kubernetes-tls; and a slip
// in one of them is noticed.
func TestChartIsTheOverlay(t *testing.T) {
	text := read(t, overlay)
	known := maps.Clone(different)
	for name := range objects(t, read(t, root+"/deploy/kubernetes-tls/certificates.yaml")) { // order-free: a map
		known[name] = "certificates are made by cert-manager, or by hand"
	}
	same(t, overlaid(t, text), rendered(t, protected), known)
	for _, slip := range []struct{ was, is, path string }{
		{"peer-listen=:25522", "peer-listen=:25523", "Deployment gateway.spec.template.spec.containers[0].args[8]"},
		{"containerPort: 25522", "containerPort: 25523", "Deployment gateway.spec.template.spec.containers[0].ports[2].containerPort"},
		{"[{port: peers}]", "[{port: management}]", "NetworkPolicy gateway.spec.ingress[1].ports[0].port"},
		{"secretName: roost-region-tls", "secretName: roost-peers-ca", "Deployment region.spec.template.spec.volumes[3].secret.secretName"},
	} {
		found := compare("", generic(overlaid(t, strings.ReplaceAll(text, slip.was, slip.is))), generic(rendered(t, protected)))
		if !slices.ContainsFunc(found, func(d difference) bool { return d.path == slip.path }) {
			t.Errorf("%q instead of %q: heard %v", slip.is, slip.was, found)
		}
	}
}

// overlay is the kustomization of deploy/kubernetes-tls.
const overlay = root + "/deploy/kubernetes-tls/kustomization.yaml"

// overlaid are the manifests with what a kustomization adds at the ends of lists, and the certificates. e2e/deploy tests that
// the overlay has nothing else.
func overlaid(t *testing.T, text string) map[string]object {
	t.Helper()
	all := objects(t, manifests(t, "kubernetes"))
	maps.Copy(all, objects(t, read(t, root+"/deploy/kubernetes-tls/certificates.yaml")))
	var k struct {
		Patches []struct {
			Target struct{ Kind, Name string }
			Patch  string
		}
	}
	if err := yaml.Unmarshal([]byte(text), &k); err != nil || len(k.Patches) == 0 {
		t.Fatal("no patches", err)
	}
	for _, p := range k.Patches {
		var additions []struct {
			Op, Path string
			Value    any
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &additions); err != nil {
			t.Fatal(err)
		}
		for _, a := range additions {
			keys, atEnd := strings.CutSuffix(strings.TrimPrefix(a.Path, "/"), "/-")
			var path []any
			for _, key := range strings.Split(keys, "/") {
				if i, err := strconv.Atoi(key); err == nil {
					path = append(path, i)
				} else {
					path = append(path, key)
				}
			}
			last := len(path) - 1
			in, isMap := at(all[p.Target.Kind+" "+p.Target.Name], path[:last]...).(object)
			list, isList := at(in, path[last]).([]any)
			if a.Op != "add" || !atEnd || !isMap || !isList {
				t.Fatalf("%v: %s %s adds to no list", p.Target, a.Op, a.Path)
			}
			in[path[last].(string)] = append(list, a.Value)
		}
	}
	return all
}

func same(t *testing.T, manifests, chart map[string]object, different map[string]string) {
	t.Helper()
	unused := maps.Clone(different)
	for _, d := range compare("", generic(manifests), generic(chart)) {
		if _, ok := different[d.path]; ok {
			delete(unused, d.path)
			continue
		}
		t.Errorf("%s: the manifest has %v, the chart %v", d.path, d.a, d.b)
	}
	for path, why := range unused { // order-free: failures
		t.Errorf("%s does not differ (%s)", path, why)
	}
}

func generic(all map[string]object) object {
	o := object{}
	for name, v := range all { // order-free: a map
		o[name] = v
	}
	return o
}

type difference struct {
	path string
	a, b any
}

// compare lists the differences. A text that is a file of YAML is compared by its content.
func compare(path string, a, b any) (found []difference) {
	if file, is := strings.CutSuffix(path, ".roost.yaml"); is && strings.HasPrefix(file, "ConfigMap") {
		a, b = parsed(a), parsed(b)
	}
	switch x := a.(type) {
	case object:
		if y, ok := b.(object); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				found = append(found, compare(strings.TrimPrefix(path+"."+k, "."), x[k], y[k])...)
			}
			return found
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				found = append(found, compare(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])...)
			}
			return found
		}
	default:
		if a == b {
			return nil
		}
	}
	return []difference{{path, a, b}}
}

func parsed(v any) any {
	var o object
	if text, ok := v.(string); !ok || yaml.Unmarshal([]byte(text), &o) != nil {
		return v
	}
	return o
}

// TestChartNoticed: a slip in the chart is noticed.
func TestChartNoticed(t *testing.T) {
	plain := manifests(t, "kubernetes")
	for _, slip := range []struct{ was, is, path string }{
		{"--lease.ttl=5s", "--lease.ttl=6s", "StatefulSet coordinator.spec.template.spec.containers[0].args[4]"},
		{"replicas: 2", "replicas: 3", "Deployment gateway.spec.replicas"},
		{"log.format: json", "log.format: text", "ConfigMap roost.data.roost.yaml.log.format"},
		{"verbs: [list, watch]", "verbs: [list]", "Role roost-discovery.rules[0].verbs"},
		{"kind: PodDisruptionBudget\nmetadata: {name: region", "kind: PodDisruptionBudget\nmetadata: {name: regions", "PodDisruptionBudget region"},
	} {
		text := strings.ReplaceAll(plain, slip.was, slip.is)
		found := compare("", generic(objects(t, text)), generic(rendered(t, "")))
		if !slices.ContainsFunc(found, func(d difference) bool { return d.path == slip.path }) {
			t.Errorf("%q instead of %q: heard %v", slip.is, slip.was, found)
		}
	}
}

// TestChartDoesWhatTheBinariesUnderstand: the tests of the manifests find nothing in what the chart makes of values.
func TestChartDoesWhatTheBinariesUnderstand(t *testing.T) {
	for name, more := range map[string]string{
		"defaults": "", "full": full, "TLS that ends before the gateways": `{clusterName: shop, tls: {secrets: {coordinator: a, region: b, gateway: c}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := values(t, more)
			delete(v, "monitoring")    // kinds of others, and who may scrape: TestChartMonitoring
			delete(v, "networkPolicy") // other ports than the usual ones: TestChartNetwork
			if j, ok := v["journal"].(object); ok {
				delete(j, "port")
			}
			if output, err := check(t, v); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
	output, err := check(t, values(t, `{region: {args: [--region.tips=Counter]}}`))
	if err == nil || !strings.Contains(output, "has no --region.tips") {
		t.Errorf("a flag that is none is not noticed: %v\n%s", err, output)
	}
}

// check has the tests of e2e/deploy look at what the chart makes of values.
func check(t *testing.T, v map[string]any) (output string, err error) {
	t.Helper()
	text, err := render(v)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"0.yaml": read(t, root+"/deploy/kubernetes/00-namespace.yaml"), "1.yaml": documents(t, text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", "-run", "TestKubernetes$", "./e2e/deploy")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=", "MANIFESTS="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// documents is a text without documents that have nothing but comments.
func documents(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	all := objects(t, text)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := e.Encode(all[name]); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestChartRefuses: what is wrong in the values is refused, and the error names it.
func TestChartRefuses(t *testing.T) {
	for text, words := range map[string][]string{
		"coordinator: {replica: 5}":                                         {"coordinator", "replica"},
		"coordinator: {replicas: three}":                                    {"/coordinator/replicas", "integer"},
		"coordinator: {replicas: 0}":                                        {"/coordinator/replicas"},
		"coordinator: {minRegions: 0}":                                      {"/coordinator/minRegions"},
		"coordinator: {minRegions: 4}":                                      {"minRegions is above region.replicas"},
		"clusterName: a b":                                                  {"clusterName"},
		"journal: {url: sqlite:/var/lib/roost/journal.db}":                  {"/journal/url"},
		"journal: {urlKey: url}":                                            {"either url or urlKey"},
		"journal: {url: ''}":                                                {"urlKey"},
		"journal: {databases: ['postgres://db2/roost']}":                    {"/journal/databases/0"},
		"journal: {databases: ['2=postgres://db2/roost'], databasesKey: x}": {"either databases or databasesKey"},
		"config: {journal.databases: ['2=postgres://db2/roost']}":           {"journal.databases is set by the chart"},
		"lease: {ttl: 5}":                                                   {"/lease/ttl"},
		"lease: {url: 'sqlite:/x'}":                                         {"/lease/url"},
		"config: {logformat: json}":                                         {"logformat"},
		"config: {journal.url: x}":                                          {"journal.url is set by the chart"},
		"tls: {secrets: {region: a}}":                                       {"tls.secrets", "coordinator"},
		"tls: {identity: spiffe://a}":                                       {"/tls/identity"},
		"region: {args: [region.types=Cart]}":                               {"/region/args/0"},
		"gateway: {service: {type: ExternalName}}":                          {"/gateway/service/type"},
		"networkPolicy: {apiServerPorts: []}":                               {"/networkPolicy/apiServerPorts"},
	} {
		_, err := render(values(t, text))
		for _, w := range words {
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ".", "/"), strings.ReplaceAll(w, ".", "/")) {
				t.Errorf("%s: %v, want %q", text, err, w)
			}
		}
	}
}
