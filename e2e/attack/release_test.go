package attack

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/roost-cluster/roost/libs/test/testbin"
)

var root = filepath.Join("..", "..")

// containers: what is deployed has no rights that it does not need.
func containers(t *testing.T, _ *rig) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	must(t, err)
	for _, line := range []string{"FROM scratch", "USER 65532:65532"} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(text) {
			t.Errorf("deploy/Dockerfile has no line %q", line)
		}
	}
	checked := 0
	files, err := filepath.Glob(filepath.Join(root, "deploy", "compose", "*.yaml"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var content struct {
			Services map[string]struct {
				Image       string
				ReadOnly    bool     `yaml:"read_only"`
				CapDrop     []string `yaml:"cap_drop"`
				SecurityOpt []string `yaml:"security_opt"`
				Privileged  bool
				Ports       []string
			}
		}
		must(t, yaml.Unmarshal(text, &content))
		for name, s := range content.Services {
			if !strings.HasPrefix(s.Image, "roost/") {
				continue
			}
			checked++
			if !s.ReadOnly || strings.Join(s.CapDrop, "") != "ALL" || !strings.Contains(strings.Join(s.SecurityOpt, ""), "no-new-privileges:true") || s.Privileged {
				t.Errorf("%s: %s may more than it needs: %+v", file, name, s)
			}
			for _, port := range s.Ports {
				if !strings.HasPrefix(port, "127.0.0.1:") {
					t.Errorf("%s: %s is reached from everywhere by %s", file, name, port)
				}
			}
		}
	}
	workloads, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "[345]0-*.yaml"))
	must(t, err)
	for _, file := range workloads {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, line := range []string{"runAsNonRoot: true", "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true", "capabilities: {drop: [ALL]}", "seccompProfile: {type: RuntimeDefault}"} {
			if bytes.Count(text, []byte(line)) != 1 {
				t.Errorf("%s has not one %s", file, line)
			}
			checked++
		}
	}
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway")
	for _, name := range []string{"coordinator", "region", "gateway"} {
		info, err := buildinfo.ReadFile(filepath.Join(bin, name))
		must(t, err)
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if settings["-trimpath"] != "true" || settings["CGO_ENABLED"] != "0" || settings["-tags"] != "" {
			t.Errorf("%s is built with %v", name, settings)
		}
		checked += onlyProduct(t, filepath.Join(bin, name))
	}
	if checked < 30 {
		t.Errorf("only %d services and lines were found", checked)
	}
	t.Logf("%d services and lines of files for containers, and three static binaries without tags, switches and faults", checked)
}

// onlyProduct fails if a binary has something that is only for tests: switches of guards, injected faults, test servers.
func onlyProduct(t *testing.T, file string) (symbols int) {
	t.Helper()
	binary, err := elf.Open(file)
	must(t, err)
	defer func() { _ = binary.Close() }()
	list, err := binary.Symbols()
	must(t, err)
	known := false
	for _, s := range list {
		known = known || s.Name == "main.main"
		for _, part := range []string{"libs/mutant.Activate", "testing.", "/testbin.", "/servertest.", "postgrestest.", "journaltest.", "/e2e/"} {
			if strings.HasPrefix(s.Name, part) || strings.HasPrefix(part, "/") && strings.Contains(s.Name, part) || strings.Contains(s.Name, "roost/"+part) {
				t.Errorf("%s has %s", file, s.Name)
			}
		}
	}
	if !known {
		t.Errorf("%s has no symbols that could be looked at", file)
	}
	content, err := os.ReadFile(file)
	must(t, err)
	for _, f := range faults {
		if bytes.Contains(content, []byte(f.message())) {
			t.Errorf("%s has the fault %s", file, f.name)
		}
	}
	return 1
}

// repository returns the repository of a module, as far as its path tells: several modules of one repository have the same
// authors and releases.
func repository(module string) string {
	for _, family := range []string{"go.opentelemetry.io/otel", "go.etcd.io/etcd"} {
		if strings.HasPrefix(module, family+"/") {
			return family
		}
	}
	return module
}

// supplyChain: the build depends on nothing but the source and the checked modules, which are few and have allowed
// licences.
func supplyChain(t *testing.T, _ *rig) {
	direct, single := map[string]bool{}, regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`)
	for _, dir := range []string{"libs", "libs/discovery", "libs/journal/postgres", "libs/journal/sqlite", "libs/lease", "libs/node", "proto", "sdk", "cli", "services/coordinator", "services/region", "services/gateway"} {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		must(t, err)
		for _, m := range single.FindAllSubmatch(text, -1) {
			if !bytes.HasPrefix(m[1], []byte("github.com/roost-cluster/")) {
				direct[repository(string(m[1]))] = true
			}
		}
	}
	const budget = 24 // each of them is other people's code in every process
	if len(direct) < 5 || len(direct) > budget {
		t.Errorf("modules of %d repositories are required directly, at most %d: %v", len(direct), budget, direct)
	}
	command := func(dir string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOWORK=off"), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
		}
	}
	// Without network access, and without permission to change the requirements.
	goCommand := func(dir string, args ...string) {
		t.Helper()
		command(dir, []string{"GOFLAGS=-mod=readonly", "GOPROXY=off", "CGO_ENABLED=0"}, args...)
	}
	gateway := filepath.Join(root, "services", "gateway")
	for _, service := range []string{"coordinator", "region", "gateway"} {
		// A service built alone may select other versions than the workspace, which the module cache may lack.
		command(filepath.Join(root, "services", service), nil, "mod", "download")
	}
	for _, service := range []string{"coordinator", "region"} { // a gateway has no module that a region has not
		goCommand(filepath.Join(root, "services", service), "mod", "verify")
	}
	copied := t.TempDir()
	for _, dir := range []string{"libs", "proto", "services/gateway"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(copied, dir)), 0o755))
		must(t, os.CopyFS(filepath.Join(copied, dir), os.DirFS(filepath.Join(root, dir))))
	}
	var sums [][sha256.Size]byte
	for i, dir := range []string{gateway, filepath.Join(copied, "services", "gateway")} {
		out := filepath.Join(t.TempDir(), "gateway")
		goCommand(dir, "build", "-trimpath", "-buildvcs=false", "-o", out, "./cmd/gateway")
		content, err := os.ReadFile(out)
		must(t, err)
		sums = append(sums, sha256.Sum256(content))
		if bytes.Contains(content, []byte(copied)) {
			t.Errorf("build %d has the path of its source", i)
		}
	}
	if len(sums) == 2 && sums[0] != sums[1] {
		t.Error("two builds in two directories differ")
	}
	if _, err := fs.Stat(os.DirFS(root), "LICENSE"); err != nil {
		t.Error(err)
	}
	parts := bills(t)
	t.Logf("%d direct dependencies, modules as their checksums say, two builds with the same bytes, bills of materials with %d modules and their licences", len(direct), parts)
}

// bills writes the bills of materials of the released binaries, and compares them with what the binaries say of
// themselves. It returns how many modules there are.
func bills(t *testing.T) int {
	t.Helper()
	released := []string{"coordinator", "region", "gateway", "roost"}
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway", "cli/cmd/roost", "tools/cmd/sbom")
	to, modules := t.TempDir(), map[string]bool{}
	args := []string{"-root", root, "-to", to}
	for _, name := range released {
		args = append(args, filepath.Join(bin, name))
	}
	if out, err := exec.Command(filepath.Join(bin, "sbom"), args...).CombinedOutput(); err != nil {
		t.Fatalf("sbom: %v\n%s", err, out)
	}
	for _, name := range released {
		text, err := os.ReadFile(filepath.Join(to, name+".cdx.json"))
		must(t, err)
		var bill struct {
			BOMFormat  string
			Components []struct {
				Name, Version string
				Hashes        []struct{ Content string }
				Licenses      []struct{ License struct{ ID string } }
			}
		}
		must(t, json.Unmarshal(text, &bill))
		listed := map[string]bool{}
		for _, c := range bill.Components {
			if len(c.Licenses) == 0 || c.Licenses[0].License.ID == "" {
				t.Errorf("%s in %s has no licence", c.Name, name)
			}
			listed[c.Name+" "+c.Version] = true
		}
		info, err := buildinfo.ReadFile(filepath.Join(bin, name))
		must(t, err)
		for _, m := range info.Deps {
			modules[m.Path] = true
			if !listed[m.Path+" "+m.Version] && m.Replace == nil {
				t.Errorf("%s %s is in %s and not in its bill", m.Path, m.Version, name)
			}
			if m.Sum == "" && m.Replace == nil && !strings.HasPrefix(m.Path, "github.com/roost-cluster/roost/") {
				t.Errorf("%s %s is in %s without a checksum", m.Path, m.Version, name)
			}
		}
		if bill.BOMFormat != "CycloneDX" || len(listed) <= len(info.Deps) { // the standard library, too
			t.Errorf("the bill of %s has %d modules, the binary %d", name, len(listed), len(info.Deps))
		}
	}
	return len(modules)
}
