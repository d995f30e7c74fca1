package stranger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// patience bounds what a busy machine may need for one command.
const patience = 8 * time.Minute

// shell runs a line and returns what it prints.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, problems.String())
	}
	return strings.TrimSpace(string(out))
}

// TestStranger does what docs/using/own-region.md says for those who have no checkout.
func TestStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module and runs processes")
	}
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway", "tools/cmd/moduleproxy")
	page, err := os.ReadFile("../../docs/using/own-region.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, proxy := t.TempDir(), t.TempDir()
	version := publish(t, filepath.Join(bin, "moduleproxy"), proxy)
	takeFrom(t, proxy, filepath.Join(bin, "modules"))
	t.Setenv("GOBIN", filepath.Join(dir, "bin"))

	// said returns a command of the page, with the version of this test.
	said := func(command string) string {
		t.Helper()
		if !strings.Contains(string(page), "\n$ "+command+"\n") {
			t.Errorf("docs/using/own-region.md does not say %q", command)
		}
		return strings.ReplaceAll(command, "v0.1.0", version)
	}
	shell(t, dir, said("go install github.com/roost-cluster/roost/cli/cmd/roost@v0.1.0"))
	shell(t, dir, "bin/"+said("roost new region shop"))
	shop := filepath.Join(dir, "shop")
	if text := shell(t, shop, "cat go.mod"); strings.Contains(text, "replace") || strings.Count(text, " "+version+"\n") != 2 {
		t.Errorf("go.mod:\n%s", text)
	}
	t.Setenv("GOFLAGS", "-mod=mod "+os.Getenv("GOFLAGS")) // go mod tidy would also load tests of others
	shell(t, shop, said("go test ./..."))
	shell(t, shop, said("CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./..."))
	checkSize(t, shop)
	checkImage(t, shop)

	gateway := start(t, bin, filepath.Join(shop, "bin/shop-region"))
	for _, call := range []struct{ command, prints string }{
		{`curl --json '{"delta":5}' localhost:8080/v1/Counter/c1/Add`, `{"value":5}`},
		{`curl localhost:8080/v1/Counter/c1/Get`, `{"value":5}`},
		{`bin/shop c1 2`, `7`},
	} {
		command := strings.ReplaceAll(said(call.command), "localhost:8080", gateway)
		command = strings.Replace(command, "curl ", "curl -s -H 'Roost-Timeout: 20s' ", 1)
		command = strings.Replace(command, "bin/shop ", "bin/shop -gateway "+gateway+" ", 1)
		if got := shell(t, shop, command); got != call.prints {
			t.Errorf("%s prints %q, not %q", command, got, call.prints)
		}
	}
}

// checkSize holds the region to its budgets, because each user builds, scans and copies it. To list its largest parts:
// go tool nm -size -sort size, of a build without -s -w.
func checkSize(t *testing.T, dir string) {
	t.Helper()
	const mostPackages, mostBytes = 450, 29_000_000
	if n := len(strings.Fields(shell(t, dir, "CGO_ENABLED=0 go list -deps ./cmd/shop-region"))); n > mostPackages {
		t.Errorf("the region is made of %d packages, at most %d are allowed", n, mostPackages)
	}
	region, err := os.Stat(filepath.Join(dir, "bin/shop-region"))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOARCH == "amd64" && region.Size() > mostBytes { // other machines have longer or shorter code
		t.Errorf("the region has %d bytes, at most %d are allowed", region.Size(), mostBytes)
	}
}

// publish fills a proxy with the modules of the work tree. Their version has a hash of their
// content, because a version that the go command has seen must never change.
func publish(t *testing.T, tool, proxy string) (version string) {
	t.Helper()
	first := t.TempDir()
	shell(t, "../..", tool+" -version v0.1.0 -to "+first)
	zips, err := filepath.Glob(filepath.Join(first, "github.com/roost-cluster/roost/*/@v/*.zip"))
	deeper, _ := filepath.Glob(filepath.Join(first, "github.com/roost-cluster/roost/*/*/@v/*.zip"))
	if err != nil || len(zips) == 0 || len(deeper) == 0 {
		t.Fatalf("%d and %d modules: %v", len(zips), len(deeper), err)
	}
	hash := sha256.New()
	for _, name := range append(zips, deeper...) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(content)
	}
	version = fmt.Sprintf("v0.1.0-test.h%x", hash.Sum(nil)[:6])
	shell(t, "../..", tool+" -version "+version+" -to "+proxy)
	return version
}

// takeFrom makes the go command take modules from the proxy. Modules of others come from
// the cache of this machine, if they are there. The test has a cache of its own, which is
// kept: to unpack it takes longer than the rest.
func takeFrom(t *testing.T, proxy, cache string) {
	t.Helper()
	outer := shell(t, ".", "go env GOMODCACHE")
	t.Setenv("GOPROXY", "file://"+proxy+",file://"+filepath.Join(outer, "cache/download")+","+shell(t, ".", "go env GOPROXY"))
	t.Setenv("GOFLAGS", "-modcacherw "+shell(t, ".", "go env GOFLAGS"))
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOWORK", "off")
}

// start runs a cluster with the region, and returns the URL of its gateway.
func start(t *testing.T, bin, region string) (gateway string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	c, err := cluster.Start(ctx, cluster.Options{Coordinators: 1, Regions: 2, Gateways: 1, Dir: dir, BinDir: bin, RegionBinary: region})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c.Gateways()[0]
}

// checkImage checks the Dockerfile: that an image of nothing but the binary works, and with
// a Docker Engine that it is built and runs. No registry is queried.
func checkImage(t *testing.T, dir string) {
	t.Helper()
	var steps []string
	for line := range strings.Lines(shell(t, dir, "cat Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			steps = append(steps, line)
		}
	}
	want := []string{"FROM scratch", "COPY bin/shop-region /region", "COPY --chown=65532:65532 data /data", "ENV ROOST_REGION_CRASH_DIR=/data", "USER 65532:65532", "STOPSIGNAL SIGTERM", `ENTRYPOINT ["/region"]`}
	if !slices.Equal(steps, want) {
		t.Errorf("Dockerfile: %q, want %q", steps, want)
	}
	binary, err := elf.Open(filepath.Join(dir, "bin/shop-region"))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the region's binary is not static, as the image needs it")
		}
	}
	if err := exec.Command("docker", "info").Run(); err != nil {
		t.Logf("no Docker Engine here (%v): the image is not built", err)
		return
	}
	id := filepath.Join(t.TempDir(), "id")
	shell(t, dir, "docker build --iidfile "+id+" .")
	image := shell(t, dir, "cat "+id)
	if got := shell(t, dir, "docker run --rm "+image+" --version"); !strings.HasPrefix(got, "roost-region ") {
		t.Errorf("the image prints %q", got)
	}
	shell(t, dir, "docker rmi "+image)
}
