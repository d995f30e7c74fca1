package deploy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/test/testbin"

	"github.com/roost-cluster/roost/cli/authority"
)

const root = "../.."

var services = []string{"coordinator", "region", "gateway"}

// binary is the file of a service.
func binary(t *testing.T, service string) string {
	t.Helper()
	var packages []string
	for _, s := range services {
		packages = append(packages, "services/"+s+"/cmd/"+s)
	}
	return filepath.Join(testbin.Build(t, packages...), service)
}

// process is one process of ours as a file of deploy/ starts it.
type process struct {
	where    string // for people
	service  string // which of the binaries; the last part of the image's name
	replicas int
	args     []string
	env      map[string]string
	files    map[string]string // what is mounted, by path
	grace    time.Duration
	ports    []int    // that others come to
	manage   []int    // the same of the management listener
	peers    []int    // and of the listener for peers of a gateway
	probes   []string // paths, there
}

// check tells everything that its binary would not do as the file says. The
// process's arguments are returned too.
func (p *process) check(t *testing.T) (effective map[string]string, problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, p.where+": "+fmt.Sprintf(format, args...))
	}
	if !slices.Contains(services, p.service) {
		bad("there is no service %q", p.service)
		return nil, problems
	}
	flags, variables := help(t, p.service)
	for _, a := range p.args {
		if name, _, _ := strings.Cut(a, "="); !slices.Contains(flags, name) {
			bad("roost-%s --help has no %s", p.service, name)
		}
	}
	for name := range p.env { // order-free: problems
		if strings.HasPrefix(name, "ROOST_") && !slices.Contains(variables, name) {
			bad("roost-%s --help has no %s", p.service, name)
		}
	}
	out, ok := p.config(t)
	if !ok {
		bad("it does not start: %s", out)
		return nil, problems
	}
	effective = values(out)
	for _, port := range p.ports {
		if listen := effective["service.listen"]; !strings.HasSuffix(listen, fmt.Sprintf(":%d", port)) {
			bad("port %d is not its service.listen %s", port, listen)
		}
	}
	for _, port := range p.peers {
		if listen := effective["gateway.peer_listen"]; listen != fmt.Sprintf(":%d", port) {
			bad("port %d is not its gateway.peer_listen %s, for everybody", port, listen)
		}
	}
	for _, port := range p.manage {
		if listen := effective["management.listen"]; listen != fmt.Sprintf(":%d", port) {
			bad("port %d is not its management.listen %s, for everybody", port, listen)
		}
	}
	// All files here restart processes that end.
	if giveUp := effective["discovery.give_up"]; p.service != "gateway" && giveUp != "40s" {
		bad("discovery.give_up is %q: a process that found nothing would never be started again", giveUp)
	}
	const reserve = 5 * time.Second // as --help says
	if need := duration(t, effective["shutdown.delay"]) + duration(t, effective["shutdown.timeout"]) + reserve; p.grace < need {
		bad("it is killed %v after SIGTERM, and may need %v to stop", p.grace, need)
	}
	return effective, problems
}

// checkMinRegions: the first shard is allocated when half of the regions have registered. With fewer, the first region
// would get all shards, which move again; with all, one missing region would hold the cluster back.
func checkMinRegions(minimum string, regions int) (problems []string) {
	if want := fmt.Sprint((regions + 1) / 2); minimum != want {
		problems = append(problems, fmt.Sprintf("coordinator.min_regions is %s of %d regions, want %s", minimum, regions, want))
	}
	return problems
}

// configs maps a configuration to what --print-config printed for it: most
// slips in a file leave most processes as they are.
var configs = map[string]string{}

// config is the configuration that the process prints, or the error if it does
// not.
func (p *process) config(t *testing.T) (text string, ok bool) {
	t.Helper()
	told := fmt.Sprint(p.service, p.args, p.env, p.files)
	if text, ok := configs[told]; ok {
		return text, true
	}
	out, err := p.command(t, "--print-config").CombinedOutput()
	if err != nil {
		return string(out), false
	}
	configs[told] = string(out)
	return string(out), true
}

// helps has the help of services, with the part for experts.
var helps = map[string]string{}

// help returns the flags and variables that the help of a service lists.
func help(t *testing.T, service string) (flags, variables []string) {
	t.Helper()
	if helps[service] == "" {
		for _, part := range []string{"--help", "--help-expert"} {
			out, err := exec.Command(binary(t, service), part).Output()
			if err != nil {
				t.Fatal(err)
			}
			helps[service] += string(out)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  (--[a-z.-]+), (ROOST_[A-Z_]+)$`).FindAllStringSubmatch(helps[service], -1) {
		flags, variables = append(flags, m[1]), append(variables, m[2])
	}
	for _, m := range regexp.MustCompile(`the file that\s+(ROOST_[A-Z_]+_FILE)\s+names`).FindAllStringSubmatch(helps[service], -1) {
		variables = append(variables, m[1])
	}
	if len(flags) < 20 {
		t.Fatalf("--help of %s is read wrongly: %q", service, flags)
	}
	return append(flags, "--config"), variables
}

// values reads --print-config.
func values(text string) map[string]string {
	v := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) >= 2 {
			v[f[0]] = strings.Trim(f[1], `"`)
		}
	}
	return v
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// command is the process with more arguments; mounted files are elsewhere.
func (p *process) command(t *testing.T, more ...string) *exec.Cmd {
	dir := t.TempDir()
	var args []string
	for _, a := range p.args {
		name, path, _ := strings.Cut(a, "=")
		if content, ok := p.files[path]; ok {
			path = filepath.Join(dir, filepath.Base(path))
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			a = name + "=" + path
		}
		args = append(args, p.certified(t, dir, a))
	}
	cmd := exec.CommandContext(t.Context(), binary(t, p.service), append(args, more...)...)
	cmd.Env, cmd.Dir = []string{"PATH=/nowhere"}, dir
	for name, value := range p.env { // order-free: an environment
		cmd.Env = append(cmd.Env, name+"="+p.mounted(t, dir, value))
	}
	return cmd
}

// mounted makes the file below /certs, or of the Secret of the journal, that a variable names, and returns where it
// is. Files below /data are made by the process.
func (p *process) mounted(t *testing.T, dir, path string) string {
	if file, is := strings.CutPrefix(path, "/data/"); is {
		return filepath.Join(dir, file)
	}
	if file, is := strings.CutPrefix(path, "/etc/roost-journal/"); is {
		made := filepath.Join(dir, file)
		if err := os.WriteFile(made, []byte("postgres://roost@postgres.example.net/roost\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return made
	}
	file, is := strings.CutPrefix(path, "/certs/")
	if !is {
		return path
	}
	name, kind, _ := strings.Cut(file, ".")
	made := filepath.Join(dir, file)
	if _, err := os.Stat(made); err == nil {
		return made
	}
	ca, err := authority.New("test", time.Hour)
	if err == nil && file == "ca.pem" {
		err = os.WriteFile(made, ca.PEM(), 0o600)
	} else if err == nil && kind == "" {
		err = os.WriteFile(made, nil, 0o600) // no token is known
	} else if err == nil {
		_, _, err = ca.IssueFiles(dir, name, authority.Request{
			Name: name, URIs: []string{authority.URI(p.env["ROOST_CLUSTER_NAME"], p.service, name)}, Hosts: []string{"127.0.0.1"}, End: time.Now().Add(time.Hour),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// certified has an argument name certificates that are made, in the place of those in the Secrets that are mounted,
// which have the names of cert-manager.
func (p *process) certified(t *testing.T, dir, config string) string {
	for _, mount := range []string{"/etc/roost-tls/", "/etc/roost-public/"} {
		if !strings.Contains(config, mount) {
			continue
		}
		made := filepath.Join(dir, filepath.Base(mount))
		config = strings.ReplaceAll(config, mount, made+"/")
		if os.Mkdir(made, 0o700) != nil {
			continue // they are there
		}
		ca, err := authority.New("test", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := ca.Issue(authority.Request{
			Name: p.service, Hosts: []string{"127.0.0.1"}, URIs: []string{authority.RoleURI("shop", p.service)}, End: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": ca.PEM()} {
			if err := os.WriteFile(filepath.Join(made, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return config
}

// run starts the process with its arguments, but for listeners and journal, and
// queries the paths of its probes. What a pod's account says is given as
// parameters, and no server is there: both are no reasons not to start.
func (p *process) run(t *testing.T, effective map[string]string) (problems []string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "addresses")
	more := []string{
		"--service.listen=127.0.0.1:0", "--management.listen=127.0.0.1:0", "--node.advertise=127.0.0.1",
		"--node.address-file=" + file, "--node.exit-with-parent", "--shutdown.delay=0s", "--log.format=text",
		"--discovery.url=" + outsidePod(effective["discovery.url"]),
	}
	if len(p.peers) > 0 {
		more = append(more, "--gateway.peer-listen=127.0.0.1:0")
	}
	if p.service != "gateway" {
		more = append(more, "--journal.url=sqlite:"+filepath.Join(dir, "journal.db"))
	}
	if lease := effective["lease.url"]; strings.HasPrefix(lease, "sqlite:") {
		more = append(more, "--lease.url=sqlite:"+filepath.Join(dir, "lease.db"))
	} else if lease != "" {
		more = append(more, "--lease.url="+outsidePod(lease))
	}
	cmd := p.command(t, more...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	problem := p.probe(t, file, ended)
	_ = cmd.Process.Kill()
	<-ended
	if problem != nil {
		problems = append(problems, fmt.Sprintf("%s: %v\n%s", p.where, problem, log.String()))
	}
	if strings.Contains(log.String(), "unknown") {
		problems = append(problems, fmt.Sprintf("%s: something is unknown\n%s", p.where, log.String()))
	}
	return problems
}

// probe asks the process that writes the address file.
func (p *process) probe(t *testing.T, file string, ended chan error) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var at struct{ Management string }
	for look := time.NewTicker(20 * time.Millisecond); at.Management == ""; {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return errors.New("it does not begin to listen")
		case <-look.C:
			if text, err := os.ReadFile(file); err == nil {
				if err := json.Unmarshal(text, &at); err != nil {
					return err
				}
			}
		}
	}
	for _, path := range append([]string{"/livez", "/readyz"}, p.probes...) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.Management+path, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if code := res.StatusCode; code != http.StatusOK && (code != http.StatusServiceUnavailable || path == "/livez") {
			return fmt.Errorf("probe %s: %s", path, res.Status)
		}
	}
	return nil
}

// outsidePod is a URL with what a pod finds in its service account.
func outsidePod(url string) string {
	for _, prefix := range []string{"kubernetes:///", "kubernetes:"} {
		if rest, ok := strings.CutPrefix(url, prefix); ok {
			parameter := "?api=http://127.0.0.1:1"
			if strings.Contains(rest, "?") {
				parameter = "&" + parameter[1:]
			}
			return strings.TrimSuffix("kubernetes://roost/"+rest, "/") + parameter
		}
	}
	return url
}

// opensJournal looks whether a region takes the URL of its journal, if that is a
// server, which is not there.
func (p *process) opensJournal(t *testing.T, effective map[string]string) (problems []string) {
	server := regexp.MustCompile(`^(postgres://[^/]*@)[^/]+`)
	url := effective["journal.url"]
	if !server.MatchString(url) {
		return nil
	}
	cmd := p.command(t, "--service.listen=127.0.0.1:0", "--management.listen=127.0.0.1:0", "--discovery.url=static:127.0.0.1:1",
		"--journal.url="+server.ReplaceAllString(url, "${1}127.0.0.1:1"))
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It continues trying for a minute; the first attempt says enough.
	var log bytes.Buffer
	for lines := bufio.NewScanner(io.TeeReader(output, &log)); lines.Scan(); {
		if strings.Contains(lines.Text(), "connection refused") {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil
		}
	}
	_ = cmd.Wait()
	return []string{fmt.Sprintf("%s: %s is not taken:\n%s", p.where, url, &log)}
}
