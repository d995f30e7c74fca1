package deploy

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/roost-cluster/roost/cli/authority"
)

// TestKubernetesTLS: with the overlay, each service starts with a certificate as cert-manager makes it, with the cluster and
// role that the process has.
func TestKubernetesTLS(t *testing.T) {
	for _, problem := range checkKubernetes(t, protected(t), true) {
		t.Error(problem)
	}
}

// TestNoticedTLS is [TestNoticed] for the overlay.
func TestNoticedTLS(t *testing.T) {
	for _, c := range []struct{ was, is, hear string }{
		{"spiffe://prod/coordinator", "spiffe://test/coordinator", "the certificate is for cluster"},
		{"spiffe://prod/gateway", "spiffe://prod/region", "cannot speak for a gateway"},
		{"secretName: roost-region-tls", "secretName: roost-regions-tls", "no Certificate for Secret roost-regions-tls"},
		{"--tls.ca=/etc/roost-tls/ca.crt", "--tls.ca=/etc/roost-tls/ca.pem", "roost-tls/ca.pem: no such file"},
		{"containerPort: 25522", "containerPort: 25523", "port 25523 is not its gateway.peer_listen"},
		{"client auth", "client", "is not for clients and servers"},
	} {
		files := protected(t)
		text := strings.Replace(files, c.was, c.is, 1)
		if text == files {
			t.Errorf("%q is not in the files", c.was)
		}
		problems := strings.Join(checkKubernetes(t, text, true), "\n")
		if !strings.Contains(problems, c.hear) {
			t.Errorf("%q instead of %q is not noticed: %s", c.is, c.was, problems)
		}
	}
}

// patchOp is an operation of a JSON patch (RFC 6902). Only add is used.
type patchOp struct {
	Op, Path string
	Value    any
}

// kustomization is the part of a kustomization that is used.
type kustomization struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Resources  []string
	Patches    []struct {
		Target struct{ Kind, Name string }
		Patch  string
	}
}

func readKustomization(t *testing.T, file string) (k kustomization) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", file))
	if err == nil {
		err = decode(text, &k)
	}
	if err != nil || k.Kind != "Kustomization" || k.APIVersion != "kustomize.config.k8s.io/v1beta1" {
		t.Fatal(file, err)
	}
	return k
}

// protected are the manifests with the overlay for TLS, as kustomize makes them.
func protected(t *testing.T) string {
	t.Helper()
	base := readKustomization(t, "kubernetes/Kustomization")
	var all []string
	for _, file := range base.Resources {
		text, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	if plain := strings.Join(all, "\n---\n"); plain != manifests(t) {
		t.Fatal("kubernetes/Kustomization does not have the files of its directory, in their order")
	}
	k := readKustomization(t, "kubernetes-tls/kustomization.yaml")
	if !slices.Equal(k.Resources, []string{"../kubernetes", "certificates.yaml"}) {
		t.Fatalf("the overlay is of %v", k.Resources)
	}
	more, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes-tls/certificates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	patched := map[int]bool{}
	for d := yaml.NewDecoder(strings.NewReader(strings.Join(append(all, string(more)), "\n---\n"))); ; {
		var doc map[string]any
		if err := d.Decode(&doc); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for i, p := range k.Patches {
			meta, _ := doc["metadata"].(map[string]any)
			if doc["kind"] != p.Target.Kind || meta["name"] != p.Target.Name {
				continue
			}
			patched[i] = true
			var ops []patchOp
			if err := yaml.Unmarshal([]byte(p.Patch), &ops); err != nil {
				t.Fatal(err)
			}
			for _, op := range ops {
				if err := op.apply(doc); err != nil {
					t.Fatalf("%s %s: %v", p.Target.Kind, p.Target.Name, err)
				}
			}
		}
		text, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	if len(patched) != len(k.Patches) {
		t.Fatalf("%d of %d patches have a target", len(patched), len(k.Patches))
	}
	return strings.Join(out, "\n---\n")
}

// apply adds the value at the end of the list at the path, which is all that the overlay needs.
func (op *patchOp) apply(doc map[string]any) error {
	path, atEnd := strings.CutSuffix(strings.TrimPrefix(op.Path, "/"), "/-")
	if op.Op != "add" || !atEnd {
		return fmt.Errorf("%s %s is not an addition to a list", op.Op, op.Path)
	}
	var at any = doc
	set := func(any) {}
	for _, part := range strings.Split(path, "/") {
		switch in := at.(type) {
		case map[string]any:
			at, set = in[part], func(v any) { in[part] = v }
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				return fmt.Errorf("%s: there is no element %s", op.Path, part)
			}
			at, set = in[i], func(v any) { in[i] = v }
		default:
			return fmt.Errorf("%s: there is nothing at %s", op.Path, part)
		}
	}
	list, is := at.([]any)
	if !is {
		return fmt.Errorf("%s is not a list", op.Path)
	}
	set(append(list, op.Value))
	return nil
}

// certificate is a certificate as cert-manager makes it.
type certificate struct {
	object `yaml:",inline"`
	Spec   struct {
		SecretName  string   `yaml:"secretName"`
		CommonName  string   `yaml:"commonName"`
		URIs        []string `yaml:"uris"`
		IsCA        bool     `yaml:"isCA"`
		Usages      []string
		Duration    string
		RenewBefore string                      `yaml:"renewBefore"`
		PrivateKey  map[string]string           `yaml:"privateKey"`
		IssuerRef   struct{ Kind, Name string } `yaml:"issuerRef"`
	}
}

// issuer signs certificates.
type issuer struct {
	object `yaml:",inline"`
	Spec   struct {
		SelfSigned *struct{} `yaml:"selfSigned"`
		CA         struct {
			SecretName string `yaml:"secretName"`
		} `yaml:"ca"`
	}
}

// secretFiles are the files of a Secret that a Certificate makes; none: there is no such Certificate.
func (w *world) secretFiles(secret string) map[string]string {
	for _, c := range w.certificates { // order-free: a Secret has one
		if c.Spec.SecretName != secret || c.Spec.IsCA {
			continue
		}
		by := w.issuers[c.Spec.IssuerRef.Name]
		if c.Spec.IssuerRef.Kind != "Issuer" || by == nil || !slices.ContainsFunc(w.certificatesList(), func(ca *certificate) bool { return ca.Spec.IsCA && ca.Spec.SecretName == by.Spec.CA.SecretName }) {
			w.bad("Certificate %s: there is no authority for it", c.Metadata.Name)
		}
		if !slices.Contains(c.Spec.Usages, "server auth") || !slices.Contains(c.Spec.Usages, "client auth") {
			w.bad("Certificate %s is not for clients and servers", c.Metadata.Name)
		}
		ca, err := authority.New("test", time.Hour)
		if err != nil {
			w.bad("%v", err)
			return nil
		}
		cert, key, err := ca.Issue(authority.Request{URIs: c.Spec.URIs, End: time.Now().Add(time.Hour)})
		if err != nil {
			w.bad("Certificate %s: %v", c.Metadata.Name, err)
		}
		return map[string]string{"tls.crt": string(cert), "tls.key": string(key), "ca.crt": string(ca.PEM())}
	}
	return nil
}

func (w *world) certificatesList() (all []*certificate) {
	for _, c := range w.certificates { // order-free: it is searched
		all = append(all, c)
	}
	return all
}
