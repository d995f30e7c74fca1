package deploy

import (
	"strings"
	"testing"
)

// TestNoticed changes the files, one slip at a time, as if a flag had been renamed
// or a number forgotten, and wants to learn of it.
func TestNoticed(t *testing.T) {
	for _, c := range []struct{ was, is, hear string }{
		{"--discovery.required-contacts=3", "--discovery.needed-contacts=3", "no --discovery.needed-contacts"},
		{"ROOST_NODE_NAME", "ROOST_NAME_OF_NODE", "no ROOST_NAME_OF_NODE"},
		{"management.listen:", "management.listens:", "it does not start"},
		{"journal.url:", "journal.uri:", "journal.uri is unknown"},
		{"--lease.ttl=5s", "--lease.ttl=5", "it does not start"},
		{"kind: StatefulSet", "kind: StatefulSets", "nothing is known of kind"},
		{"minReadySeconds: 10", "minReadySeconds: 5", "StatefulSet coordinator: a new pod is taken for ready after 5 s, must be above 5 s"},
		{"minReadySeconds: 5", "minReadySeconds: 0", "Deployment region: a new pod is taken for ready after 0 s"},
		{"maxSurge: 1", "maxSurge: 0", "an old pod goes before a new one is ready"},
		{"maxUnavailable: 0", "maxUnavailable: 1", "an old pod goes before a new one is ready"},
		{"terminationGracePeriodSeconds: 100", "terminationGracePeriodSeconds: 30", "it is killed 30s after SIGTERM"},
		{"terminationGracePeriodSeconds", "terminationGraceSeconds", "terminationGraceSeconds not found"},
		{"{name: service, containerPort: 25520}", "{name: service, containerPort: 25521}", "port 25521 is not its service.listen"},
		{"containerPort: 8558", "containerPort: 8559", "port 8559 is not its management.listen"},
		{`management.listen: ":8558"`, `management.listen: "127.0.0.1:8558"`, "for everybody"},
		{"path: /readyz", "path: /ready", "the probes ask"},
		{"port: management}", "port: service}", "asks port service"},
		{"replicas: 3 # and", "replicas: 5 # and", "required_contacts is 3 of 5"},
		{"--coordinator.min-regions=2", "--coordinator.min-regions=1", "min_regions is 1 of 3 regions"},
		{"discovery.give_up: 40s", "discovery.give_up: 0s", "coordinator: discovery.give_up"},
		{"kubernetes:///coordinator,region", "kubernetes:///coordinator,regions", `discovery.url names "regions"`},
		{"publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "not a headless Service"},
		{"clusterIP: None", "clusterIP: 10.0.0.1", "not a headless Service"},
		{"roost-cluster: prod", "roost-cluster: test", "do not say role and cluster"},
		{"cluster.name: prod", "cluster.name: test", "do not say role and cluster"},
		{"verbs: [list, watch]", "verbs: [list]", "needs map"},
		{"verbs: [get, create, update]", "verbs: [get, create, update, delete]", "needs map"},
		{"resources: [leases]", "resources: [lease]", "needs map"},
		{"targetPort: service", "targetPort: management", "leads to another port"},
		{"runAsUser: 65532", "runAsUser: 0", "its user is not"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "more than it needs"},
		{"maxUnavailable: 1", "maxUnavailable: 2", "no PodDisruptionBudget"},
		{"ports: [{port: service}]", "ports: [{port: management}]", "opens other ports"},
		{"{port: 6443}]", "{port: 6443}, {port: 5432}]", "gateway: 1 NetworkPolicies for what it connects to"},
		{"{port: 6443}, {port: 5432}]", "{port: 6443}]", "region: 1 NetworkPolicies for what it connects to"},
		{"policyTypes: [Egress]", "policyTypes: [Ingress]", "0 NetworkPolicies for what it connects to"},
		{"serviceAccountName: gateway", "serviceAccountName: gate", "there is no ServiceAccount"},
		{"configMap: {name: roost}", "configMap: {name: config}", "no ConfigMap"},
		{"image: roost/region", "image: roost/regions", "there is no service"},
	} {
		noticed(t, manifests(t), c.was, c.is, c.hear, checkKubernetes)
	}
	for _, c := range []struct{ file, was, is, hear string }{
		{"static", "ROOST_DISCOVERY_REQUIRED_CONTACTS", "ROOST_DISCOVERY_REQUIRED", "no ROOST_DISCOVERY_REQUIRED"},
		{"static", `CONTACTS: "2"`, `CONTACTS: "3"`, "required_contacts is 3 of 2"},
		{"static", `MIN_REGIONS: "2"`, `MIN_REGIONS: "3"`, "min_regions is 3 of 3 regions"},
		{"postgres", "ROOST_DISCOVERY_GIVE_UP: 40s # as", "ROOST_LOG_LEVEL: info # as", "region: discovery.give_up"},
		{"static", "8080:8080", "8080:80", "port 80 is not its service.listen"},
		{"static", `MANAGEMENT_LISTEN: ":8558"`, `MANAGEMENT_LISTEN: ":8559"`, "port 8558 is not its management.listen"},
		{"static", "static://coordinator-1:25521", "static://coordinator:25521", `no service "coordinator"`},
		{"dns", "dns:///coordinator?", "dns:///coordinators?", `no service "coordinators"`},
		{"etcd", "etcd://etcd:2379/roost-lease", "etcd://etdc:2379/roost-lease", `no service "etdc"`},
		{"consul", "8558-8559", "8558-8560", "2 containers and ports"},
		{"consul", "stop_grace_period: 100s", "stop_grace_period: 10s", "it is killed 10s after SIGTERM"},
		{"postgres", "depends_on: {postgres:", "depends_on: {database:", "waits for the health of database"},
		{"postgres", "read_only: true", "read_only: false", "more than it needs"},
		{"postgres", "cap_drop", "drop_cap", "drop_cap"},
		{"certificates", "ROOST_TLS_ROLES: require", "ROOST_TLS_ROLES: needed", "it does not start"},
		{"certificates", "./certs/region-2:", "./certs/region-1:", "no volume ./certs/region-1"},
		{"etcd", `["journal:/data"]`, `["journals:/data"]`, "no volume journals"},
	} {
		noticed(t, composeText(t, c.file), c.was, c.is, c.hear, checkCompose)
	}
}

func noticed(t *testing.T, text, was, is, hear string, check func(*testing.T, string, bool) []string) {
	t.Helper()
	changed := strings.ReplaceAll(text, was, is)
	if changed == text {
		t.Errorf("%q is not in the files", was)
		return
	}
	if problems := strings.Join(check(t, changed, false), "\n"); !strings.Contains(problems, hear) {
		t.Errorf("%q instead of %q: heard %q, want %q", is, was, problems, hear)
	}
}

// TestNoticedWhileRunning is the same for what only a start tells.
func TestNoticedWhileRunning(t *testing.T) {
	for _, c := range []struct{ was, is, hear string }{
		{"path: /livez", "path: /alive", "probe /alive: 404"},
		{"kubernetes:///coordinator,region", "kubernetes:///coordinator,region?prot=service", "prot"},
		{"?passfile=", "?pasfile=", "pasfile"},
	} {
		text := manifests(t)
		if problems := strings.Join(checkKubernetes(t, strings.ReplaceAll(text, c.was, c.is), true), "\n"); !strings.Contains(problems, c.hear) {
			t.Errorf("%q instead of %q: heard %q, want %q", c.is, c.was, problems, c.hear)
		}
	}
}
