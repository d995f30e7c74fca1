package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// configPath is the path of the units' common configuration.
const configPath = "/etc/roost/roost.yaml"

// TestSystemd: the units start the binaries in a way that these understand, give them the time that
// they need to stop, and start them again.
func TestSystemd(t *testing.T) {
	for _, service := range services {
		for _, problem := range checkUnit(t, unitText(t, "roost-"+service+".service"), service) {
			t.Error(problem)
		}
	}
}

// TestSystemdNoticed: a slip in a unit is noticed.
func TestSystemdNoticed(t *testing.T) {
	text := unitText(t, "roost-region.service")
	for name, slip := range map[string]struct{ was, is, hear string }{
		"a flag that is none":     {"--management.listen=", "--management.lissen=", "has no --management.lissen"},
		"a value that is none":    {"127.0.0.1:8560", "nowhere", "does not start"},
		"too little time to stop": {"TimeoutStopSec=100s", "TimeoutStopSec=20s", "may need"},
		"it is not started again": {"Restart=on-failure", "Restart=no", "Restart"},
		"it runs as root":         {"User=roost\n", "", "User"},
		"another binary":          {"/roost-region ", "/roost-gateway ", "starts roost-gateway"},
	} {
		if !strings.Contains(text, slip.was) {
			t.Fatalf("%s: the unit has no %q", name, slip.was)
		}
		problems := strings.Join(checkUnit(t, strings.Replace(text, slip.was, slip.is, 1), "region"), "\n")
		if !strings.Contains(problems, slip.hear) {
			t.Errorf("%s is not noticed: %q", name, problems)
		}
	}
}

// TestSystemdVerify: systemd itself understands every line, and would say so if it did not.
func TestSystemdVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	verify := func(slip string) string {
		dir := t.TempDir()
		args := []string{"verify", "--man=no"}
		for _, service := range services {
			// The binary is not installed here.
			text := strings.ReplaceAll(unitText(t, "roost-"+service+".service"), "/usr/local/bin/roost-"+service, binary(t, service))
			file := filepath.Join(dir, "roost-"+service+".service")
			if err := os.WriteFile(file, []byte(strings.Replace(text, "UMask", slip, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
		}
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err == nil && !strings.Contains(string(out), dir) {
			return "" // its output is about units of this machine
		}
		return string(out)
	}
	if says := verify("UMask"); says != "" {
		t.Errorf("systemd-analyze verify: %s", says)
	}
	if says := verify("UMusk"); !strings.Contains(says, "UMusk") {
		t.Errorf("systemd-analyze verify about an unknown key: %q", says)
	}
}

// TestSystemdMembers: the units' common configuration lets members start again, and has the number of regions.
func TestSystemdMembers(t *testing.T) {
	text := unitText(t, "roost.yaml")
	for _, line := range []string{"discovery.give_up: 40s", "coordinator.min_regions: 1"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("roost.yaml has no %s", line)
		}
	}
}

func unitText(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkUnit lists the differences between a service and its unit.
func checkUnit(t *testing.T, text, service string) (problems []string) {
	t.Helper()
	keys := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(key, "#") {
			keys[key] = value
		}
	}
	command := strings.Fields(keys["ExecStart"])
	if len(command) == 0 {
		return []string{"there is no ExecStart"}
	}
	p := process{
		where: "roost-" + service + ".service", service: strings.TrimPrefix(filepath.Base(command[0]), "roost-"), args: command[1:],
		files: map[string]string{configPath: unitText(t, "roost.yaml")},
	}
	var err error
	if p.grace, err = time.ParseDuration(keys["TimeoutStopSec"]); err != nil {
		problems = append(problems, p.where+": "+err.Error())
	}
	if p.service != service {
		problems = append(problems, p.where+" starts roost-"+p.service)
	}
	if !slices.Contains(p.args, "--config="+configPath) {
		problems = append(problems, p.where+" does not read "+configPath)
	}
	for key, want := range map[string]string{"Restart": "on-failure", "User": "roost", "StateDirectory": "roost", "NoNewPrivileges": "true", "ProtectSystem": "strict"} {
		if keys[key] != want {
			problems = append(problems, p.where+": "+key+" is "+keys[key]+", want "+want)
		}
	}
	if stop := keys["ExecStopPost"]; service == "region" && (!strings.Contains(stop, "ROOST_REGION_LAST_EXIT=") || keys["EnvironmentFile"] != "-/var/lib/roost/last-exit" || !strings.Contains(stop, ">/var/lib/roost/last-exit")) {
		problems = append(problems, p.where+": the next process does not hear how this one has ended")
	}
	effective, more := p.check(t)
	if service == "coordinator" {
		problems = append(problems, checkMinRegions(effective["coordinator.min_regions"], 1)...)
	}
	if dir := effective["region.crash_dir"]; service == "region" && dir != "/var/lib/"+keys["StateDirectory"] {
		problems = append(problems, fmt.Sprintf("%s: region.crash_dir is %q, but only the state directory outlives the process (PrivateTmp)", p.where, dir))
	}
	return append(problems, more...)
}
