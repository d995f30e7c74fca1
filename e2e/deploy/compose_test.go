package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// composeFile holds the parts of the format that our compose files use; anchors stand below
// names that begin with x-.
type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]struct{}
	X        map[string]any `yaml:",inline"`
}

type composeService struct {
	Image       string
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	StopGrace   string   `yaml:"stop_grace_period"`
	Deploy      struct{ Replicas int }
	Command     []string
	Tmpfs       []string
	Volumes     []string
	Ports       []string
	Environment map[string]string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test     []string
		Interval string
		Retries  int
	}
}

// backends are the compose files that there must be.
var backends = []string{"certificates", "consul", "dns", "etcd", "postgres", "static"}

func TestCompose(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/compose/*.yaml"))
	if err != nil || len(files) != len(backends) {
		t.Fatalf("%d compose files, want one for each of %v; %v", len(files), backends, err)
	}
	for _, name := range backends {
		t.Run(name, func(t *testing.T) {
			for _, problem := range checkCompose(t, composeText(t, name), true) {
				t.Error(problem)
			}
		})
	}
}

func composeText(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(root, "deploy/compose", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkCompose lists the faults of a file; run reports whether to start the
// processes too.
func checkCompose(t *testing.T, text string, run bool) (problems []string) {
	var f composeFile
	if err := decode([]byte(interpolate(text)), &f); err != nil {
		return []string{err.Error()}
	}
	for name := range f.X { // order-free: problems
		if !strings.HasPrefix(name, "x-") {
			problems = append(problems, "nothing is known of "+name)
		}
	}
	roles := map[string]int{}
	required, minimum := "", ""
	for _, name := range slices.Sorted(maps.Keys(f.Services)) {
		s := f.Services[name]
		role, ours := strings.CutPrefix(s.Image, "roost/")
		for _, v := range s.Volumes {
			if source, _, _ := strings.Cut(v, ":"); !known(f.Volumes, source) && source != "./certs/"+name {
				problems = append(problems, name+": there is no volume "+source)
			}
		}
		for other := range s.DependsOn { // order-free: problems
			if len(f.Services[other].Healthcheck.Test) == 0 {
				problems = append(problems, name+" waits for the health of "+other+", which has no check")
			}
		}
		if !ours {
			continue
		}
		p, bad := s.process(name, role)
		problems = append(problems, bad...)
		roles[role] += p.replicas
		effective, bad := p.check(t)
		problems = append(problems, bad...)
		for key, value := range effective { // order-free: problems
			if strings.HasSuffix(key, ".url") {
				problems = append(problems, f.hosts(name+": "+key, value)...)
			}
		}
		if role == "coordinator" {
			required, minimum = effective["discovery.required_contacts"], effective["coordinator.min_regions"]
		}
		if dir := effective["region.crash_dir"]; role == "region" && (dir == "" || !slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+dir) })) {
			problems = append(problems, fmt.Sprintf("%s: region.crash_dir is %q, which is not a volume: an entity that ends regions would not be found", name, dir))
		}
		if run && effective != nil {
			problems = append(problems, p.run(t, effective)...)
			problems = append(problems, p.opensJournal(t, effective)...)
		}
	}
	for _, role := range services {
		if roles[role] < 2 {
			problems = append(problems, fmt.Sprintf("there are %d processes of kind %s", roles[role], role))
		}
	}
	if required != strconv.Itoa(roles["coordinator"]) {
		problems = append(problems, fmt.Sprintf("discovery.required_contacts is %s of %d coordinators", required, roles["coordinator"]))
	}
	return append(problems, checkMinRegions(minimum, roles["region"])...)
}

func known[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// decode refuses fields that it does not know.
func decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// interpolate puts the defaults of variables in.
func interpolate(text string) string {
	return regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAllString(text, "$1")
}

// process is a service as what is started, with what is wrong with it as a
// container.
func (s *composeService) process(name, role string) (p process, problems []string) {
	p = process{where: name, service: role, args: s.Command, env: s.Environment, replicas: max(s.Deploy.Replicas, 1)}
	grace, err := time.ParseDuration(s.StopGrace)
	if err != nil {
		problems = append(problems, name+": stop_grace_period: "+err.Error())
	}
	p.grace = grace
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		problems = append(problems, name+": it may do more than it needs")
	}
	if s.Restart != "unless-stopped" { // on-failure leaves it down after a reboot, in which it stops with code 0
		problems = append(problems, name+": it is not started again when it fails and after a reboot")
	}
	for _, port := range s.Ports {
		m := regexp.MustCompile(`^127\.0\.0\.1:(\d+)(?:-(\d+))?:(\d+)$`).FindStringSubmatch(port)
		if m == nil {
			problems = append(problems, name+": ports: "+port+" is not of this host alone")
			continue
		}
		first, _ := strconv.Atoi(m[1]) // digits
		last, inner := first, 0
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		inner, _ = strconv.Atoi(m[3])
		if last-first+1 != p.replicas {
			problems = append(problems, fmt.Sprintf("%s: %d containers and ports %s", name, p.replicas, port))
		}
		if first/1000 == 8 && first%1000 >= 500 { // 8558 and on
			p.manage = append(p.manage, inner)
		} else {
			p.ports = append(p.ports, inner)
		}
	}
	return p, problems
}

// hosts tells which hosts of a URL are no service of the file.
func (f *composeFile) hosts(what, url string) (problems []string) {
	scheme, rest, _ := strings.Cut(url, ":")
	var hosts []string
	switch rest = strings.TrimPrefix(rest, "//"); scheme {
	case "static":
		hosts = strings.Split(rest, ",")
	case "dns":
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "?")
		hosts = []string{name}
	case "etcd", "consul", "postgres":
		authority, _, _ := strings.Cut(rest, "/")
		hosts = strings.Split(authority[strings.LastIndex(authority, "@")+1:], ",")
	}
	for _, h := range hosts {
		if host, _, err := net.SplitHostPort(h); err == nil {
			h = host
		}
		if !known(f.Services, h) {
			problems = append(problems, fmt.Sprintf("%s is %s, and there is no service %q", what, url, h))
		}
	}
	return problems
}

// TestComposeItself lets Compose read the files, where it is installed.
func TestComposeItself(t *testing.T) {
	command := []string{"docker-compose"}
	if exec.Command("docker", "compose", "version").Run() == nil {
		command = []string{"docker", "compose"}
	} else if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Skip("there is neither docker compose nor docker-compose here")
	}
	for _, name := range backends {
		args := append(slices.Clone(command), "-f", filepath.Join(root, "deploy/compose", name+".yaml"), "config", "-q")
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
