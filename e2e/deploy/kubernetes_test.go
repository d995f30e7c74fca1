package deploy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestKubernetes(t *testing.T) {
	for _, problem := range checkKubernetes(t, manifests(t), true) {
		t.Error(problem)
	}
}

// manifests are the files in the order in which kubectl applies them, as one. The variable MANIFESTS names another
// directory: so the tests of the Helm chart have checked what the chart makes of other values.
func manifests(t *testing.T) string {
	dir := cmp.Or(os.Getenv("MANIFESTS"), filepath.Join(root, "deploy/kubernetes"))
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	var all []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n---\n")
}

// world is all objects, by kind and name.
type world struct {
	configs  map[string]*configMap
	accounts map[string]*object
	roles    map[string]*role
	bindings map[string]*roleBinding
	services map[string]*service
	loads    map[string]*workload
	budgets  map[string]*budget
	policies map[string]*networkPolicy

	certificates map[string]*certificate
	issuers      map[string]*issuer

	problems []string
}

func (w *world) bad(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// checkKubernetes lists the faults of the manifests; run reports whether to start
// the processes too.
func checkKubernetes(t *testing.T, text string, run bool) []string {
	w := &world{
		configs: map[string]*configMap{}, accounts: map[string]*object{}, roles: map[string]*role{}, bindings: map[string]*roleBinding{},
		services: map[string]*service{}, loads: map[string]*workload{}, budgets: map[string]*budget{}, policies: map[string]*networkPolicy{},
		certificates: map[string]*certificate{}, issuers: map[string]*issuer{},
	}
	w.read(text)
	for _, name := range services {
		l := w.loads[name]
		if l == nil {
			w.bad("there is no workload %s", name)
			continue
		}
		p := w.process(l)
		effective, problems := p.check(t)
		w.problems = append(w.problems, problems...)
		w.checkWorkload(l)
		w.checkUpdate(t, l, effective)
		w.checkReach(l, effective)
		w.checkAccess(l, effective)
		if run && effective != nil {
			w.problems = append(w.problems, p.run(t, effective)...)
			w.problems = append(w.problems, p.opensJournal(t, effective)...)
		}
	}
	return w.problems
}

// read sorts the documents by kind.
func (w *world) read(text string) {
	d := yaml.NewDecoder(strings.NewReader(text))
	first := true
	for {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.bad("%v", err)
			return
		}
		again, err := yaml.Marshal(&doc)
		var o object
		if err != nil || yaml.Unmarshal(again, &o) != nil {
			w.bad("line %d: %v", doc.Line, err)
			continue
		}
		if first && o.Kind != "Namespace" {
			w.bad("%s comes before the Namespace", o.Metadata.Name)
		}
		first = false
		if o.Kind != "Namespace" && o.Metadata.Namespace != "roost" {
			w.bad("%s %s is not in the namespace", o.Kind, o.Metadata.Name)
		}
		w.sort(again, &o)
	}
}

func (w *world) sort(text []byte, o *object) {
	switch o.Kind + " " + o.APIVersion {
	case "Namespace v1":
		take(w, text, map[string]*object{}, o)
	case "ServiceAccount v1":
		take(w, text, w.accounts, o)
	case "ConfigMap v1":
		take(w, text, w.configs, o)
	case "Service v1":
		take(w, text, w.services, o)
	case "Role rbac.authorization.k8s.io/v1":
		take(w, text, w.roles, o)
	case "RoleBinding rbac.authorization.k8s.io/v1":
		take(w, text, w.bindings, o)
	case "StatefulSet apps/v1", "Deployment apps/v1":
		take(w, text, w.loads, o)
	case "PodDisruptionBudget policy/v1":
		take(w, text, w.budgets, o)
	case "NetworkPolicy networking.k8s.io/v1":
		take(w, text, w.policies, o)
	case "Certificate cert-manager.io/v1":
		take(w, text, w.certificates, o)
	case "Issuer cert-manager.io/v1":
		take(w, text, w.issuers, o)
	default:
		w.bad("nothing is known of kind %s in %s", o.Kind, o.APIVersion)
	}
}

// take decodes a document, without fields that nothing is known of.
func take[O any](w *world, text []byte, into map[string]*O, o *object) {
	v := new(O)
	if err := decode(text, v); err != nil {
		w.bad("%s %s: %v", o.Kind, o.Metadata.Name, err)
	}
	into[o.Metadata.Name] = v
}

// process is a workload as what is started.
func (w *world) process(l *workload) process {
	pod := l.Spec.Template.Spec
	p := process{where: l.Kind + " " + l.Metadata.Name, replicas: l.Spec.Replicas, env: map[string]string{}, files: map[string]string{}}
	p.grace = time.Duration(pod.Grace) * time.Second
	if len(pod.Containers) != 1 {
		w.bad("%s has %d containers", p.where, len(pod.Containers))
		return p
	}
	c := pod.Containers[0]
	p.service, p.args = strings.TrimPrefix(c.Image, "roost/"), c.Args
	for _, e := range c.Env {
		p.env[e.Name] = e.Value
		switch path := e.ValueFrom.FieldRef.FieldPath; path {
		case "status.podIP":
			p.env[e.Name] = "127.0.0.1"
		case "metadata.name":
			p.env[e.Name] = l.Metadata.Name + "-0"
		case "":
		default:
			w.bad("%s: %s is from %s", p.where, e.Name, path)
		}
	}
	ports := map[string]int{}
	for _, port := range c.Ports {
		if ports[port.Name] = port.ContainerPort; port.Name == "management" {
			p.manage = append(p.manage, port.ContainerPort)
		} else if port.Name == "peers" {
			p.peers = append(p.peers, port.ContainerPort)
		} else {
			p.ports = append(p.ports, port.ContainerPort)
		}
	}
	for _, probe := range []probe{c.Liveness, c.Readiness} {
		if p.probes = append(p.probes, probe.HTTP.Path); probe.HTTP.Port != "management" || ports["management"] == 0 {
			w.bad("%s: the probe %s asks port %s", p.where, probe.HTTP.Path, probe.HTTP.Port)
		}
	}
	if c.Liveness.HTTP.Path != "/livez" || c.Readiness.HTTP.Path != "/readyz" {
		w.bad("%s: the probes ask %v", p.where, p.probes)
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			w.bad("%s: there is no volume %s", p.where, m.Name)
		} else if config := w.configs[pod.Volumes[i].ConfigMap.Name]; config != nil {
			for name, content := range config.Data { // order-free: a map
				p.files[m.MountPath+"/"+name] = content
			}
		} else if secret := pod.Volumes[i].Secret.SecretName; m.MountPath == "/etc/roost-tls" && len(w.certificates) > 0 {
			files := w.secretFiles(secret)
			if files == nil {
				w.bad("%s: there is no Certificate for Secret %s", p.where, secret)
			}
			for name, content := range files { // order-free: a map
				p.files[m.MountPath+"/"+name] = content
			}
		} else if secret == "" && pod.Volumes[i].EmptyDir == nil {
			w.bad("%s: there is no ConfigMap for volume %s", p.where, m.Name)
		}
	}
	return p
}

// checkWorkload looks at what has nothing to do with our binaries.
func (w *world) checkWorkload(l *workload) {
	name, labels, pod := l.Kind+" "+l.Metadata.Name, l.Spec.Template.Metadata.Labels, l.Spec.Template.Spec
	if !maps.Equal(l.Spec.Selector.MatchLabels, labels) {
		w.bad("%s does not select its pods", name)
	}
	for _, s := range pod.Spread {
		if !maps.Equal(s.LabelSelector.MatchLabels, labels) {
			w.bad("%s does not spread its pods", name)
		}
	}
	b := w.budgets[l.Metadata.Name]
	if b == nil || !maps.Equal(b.Spec.Selector.MatchLabels, labels) || b.Spec.MaxUnavailable != 1 || l.Spec.Replicas < 2 {
		w.bad("%s: no PodDisruptionBudget keeps all but one of its pods", name)
	}
	if w.accounts[pod.ServiceAccountName] == nil {
		w.bad("%s: there is no ServiceAccount %q", name, pod.ServiceAccountName)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		w.bad("%s: variables of Services could be taken for ours", name)
	}
	if l.Kind == "StatefulSet" {
		s := w.services[l.Spec.ServiceName]
		if s == nil || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReady || l.Spec.PodManagement != "Parallel" {
			w.bad("%s: its pods cannot find each other before they are ready", name)
		}
	}
	user := dockerUser()
	sc, c := pod.SecurityContext, pod.Containers[0]
	if !sc.RunAsNonRoot || fmt.Sprintf("%d:%d", sc.RunAsUser, sc.RunAsGroup) != user || sc.FSGroup != sc.RunAsGroup || sc.Seccomp.Type != "RuntimeDefault" {
		w.bad("%s: its user is not %s of the Dockerfile", name, user)
	}
	if s := c.SecurityContext; s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRoot || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		w.bad("%s: it may do more than it needs", name)
	}
	for _, s := range w.services { // order-free: problems
		if maps.Equal(s.Spec.Selector, labels) && (len(s.Spec.Ports) != 1 || s.Spec.Ports[0].TargetPort != "service") {
			w.bad("Service %s leads to another port than service", s.Metadata.Name)
		}
	}
	i := 0
	for _, p := range w.policies { // order-free: a count
		if p.selects("Ingress", labels) {
			i++
			for _, in := range p.Spec.Ingress {
				if peers := len(in.From) == 1 && in.From[0].PodSelector.MatchLabels["app.kubernetes.io/part-of"] == "roost"; len(in.Ports) != 1 || in.Ports[0].Port != "service" && !(peers && in.Ports[0].Port == "peers") {
					w.bad("NetworkPolicy %s opens other ports than service", p.Metadata.Name)
				}
			}
		}
	}
	if i != 1 {
		w.bad("%s: %d NetworkPolicies keep others from its management port", name, i)
	}
	w.checkEgress(l)
}

// checkEgress looks whether the pods reach each other and what they need, and a gateway no database.
func (w *world) checkEgress(l *workload) {
	policies, peers, open := 0, false, map[string]bool{}
	for _, p := range w.policies { // order-free: a count
		if !p.selects("Egress", l.Spec.Template.Metadata.Labels) {
			continue
		}
		policies++
		for _, out := range p.Spec.Egress {
			peers = peers || len(out.To) == 1 && len(out.To[0].PodSelector.MatchLabels) == 1 && out.To[0].PodSelector.MatchLabels["app.kubernetes.io/part-of"] == "roost"
			for _, port := range out.Ports {
				open[port.Port] = true
			}
			if len(out.To) == 0 && len(out.Ports) == 0 {
				w.bad("%s: it may connect to everything", l.Metadata.Name)
			}
		}
	}
	journal := l.Metadata.Name != "gateway"
	if policies != 1 || !peers || !open["53"] || !open["443"] || !open["6443"] || open["5432"] != journal {
		w.bad("%s: %d NetworkPolicies for what it connects to, peers %t, ports %v", l.Metadata.Name, policies, peers, slices.Sorted(maps.Keys(open)))
	}
}

// checkUpdate looks whether the platform waits, when it replaces the pods, for what one of
// them needs before the next goes.
func (w *world) checkUpdate(t *testing.T, l *workload, effective map[string]string) {
	name, c := l.Kind+" "+l.Metadata.Name, l.Spec.Template.Spec.Containers[0]
	if update := l.Spec.Strategy.RollingUpdate; l.Kind == "Deployment" && (update.MaxSurge < 1 || update.MaxUnavailable != 0) {
		w.bad("%s: an old pod goes before a new one is ready", name)
	}
	least := max(1, c.Readiness.PeriodSeconds)
	if ttl := effective["lease.ttl"]; ttl != "" {
		least = max(least, int(duration(t, ttl)/time.Second))
	}
	if l.Spec.MinReady <= least {
		w.bad("%s: a new pod is taken for ready after %d s, must be above %d s", name, l.Spec.MinReady, least)
	}
	if l.Metadata.Name == "region" && l.Kind != "Deployment" {
		w.bad("%s: its pods are replaced in place, so that shards move more than once", name)
	}
}

// dockerUser is whom our images run as.
func dockerUser() string {
	text, _ := os.ReadFile(filepath.Join(root, "deploy/Dockerfile")) // without it nothing fits
	m := regexp.MustCompile(`(?m)^USER (\d+:\d+)$`).FindSubmatch(text)
	if m == nil || !bytes.Contains(text, []byte("FROM scratch")) {
		return "the static image's user"
	}
	return string(m[1])
}

// checkReach looks whether discovery leads to whom it should.
func (w *world) checkReach(l *workload, effective map[string]string) {
	path, found := strings.CutPrefix(effective["discovery.url"], "kubernetes:///")
	path, _, _ = strings.Cut(path, "?")
	names := strings.Split(path, ",")
	if !found || !slices.Contains(names, "coordinator") {
		w.bad("%s: discovery.url is %s", l.Metadata.Name, effective["discovery.url"])
	}
	for _, name := range names {
		s := w.services[name]
		if s == nil || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReady || w.loads[name] == nil ||
			!maps.Equal(s.Spec.Selector, w.loads[name].Spec.Template.Metadata.Labels) {
			w.bad("%s: discovery.url names %q, which is not a headless Service that includes unready pods", l.Metadata.Name, name)
			continue
		}
		if s.Metadata.Labels["roost-role"] != name || s.Metadata.Labels["roost-cluster"] != effective["cluster.name"] {
			w.bad("Service %s: the labels %v do not say role and cluster", name, s.Metadata.Labels)
		}
	}
	if l.Metadata.Name != "coordinator" {
		return
	}
	if effective["discovery.required_contacts"] != fmt.Sprint(l.Spec.Replicas) {
		w.bad("discovery.required_contacts is %s of %d coordinators", effective["discovery.required_contacts"], l.Spec.Replicas)
	}
	if regions := w.loads["region"]; regions != nil {
		for _, problem := range checkMinRegions(effective["coordinator.min_regions"], regions.Spec.Replicas) {
			w.bad("%s", problem)
		}
	}
}

// checkAccess looks whether the account may do what is needed, and no more.
func (w *world) checkAccess(l *workload, effective map[string]string) {
	need := map[string][]string{"discovery.k8s.io/endpointslices": {"list", "watch"}}
	if strings.HasPrefix(effective["lease.url"], "kubernetes:") {
		need["coordination.k8s.io/leases"] = []string{"create", "get", "update"}
	}
	may := map[string][]string{}
	for _, b := range w.bindings { // order-free: a map
		if !slices.ContainsFunc(b.Subjects, func(s subject) bool {
			return s.Kind == "ServiceAccount" && s.Name == l.Spec.Template.Spec.ServiceAccountName && s.Namespace == "roost"
		}) {
			continue
		}
		r := w.roles[b.RoleRef.Name]
		if r == nil || b.RoleRef.Kind != "Role" {
			w.bad("RoleBinding %s: there is no role %s", b.Metadata.Name, b.RoleRef.Name)
			continue
		}
		for _, rule := range r.Rules {
			for _, g := range rule.APIGroups {
				for _, resource := range rule.Resources {
					may[g+"/"+resource] = slices.Sorted(slices.Values(append(may[g+"/"+resource], rule.Verbs...)))
				}
			}
		}
	}
	if !reflect.DeepEqual(need, may) {
		w.bad("%s may %v and needs %v", l.Metadata.Name, may, need)
	}
}
