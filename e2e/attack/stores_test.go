package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// databaseRoles: a cluster works with the rights of roost_service, and who has them, or fewer, can neither change
// events nor write past the fence.
func databaseRoles(t *testing.T, r *rig) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	must(t, err)
	for _, file := range []string{"schema.sql", "roles.sql"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "libs", "journal", "postgres", file))
		must(t, err)
		must(t, server.Exec(name, string(text)))
	}
	must(t, server.Exec(name, "CREATE ROLE region LOGIN IN ROLE roost_service; CREATE ROLE checker LOGIN IN ROLE roost_reader; CREATE ROLE gateway LOGIN"))
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	c, err := launcher.Start(ctx, launcher.Options{
		Coordinators: 1, Regions: 1, Gateways: 1, Dir: dir, BinDir: bin, Journal: server.URL("region", name), Lease: "sqlite:" + filepath.Join(dir, "lease.db"), StartTimeout: time.Minute,
	})
	must(t, err)
	defer func() {
		ending, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, c.Close(ending))
	}()
	must(t, c.Ready(ctx))
	add := func(want string) {
		t.Helper()
		if a := do(r.client, "POST", c.Gateways()[0]+"/v1/Counter/c1/Add", `{"delta":5}`, "Content-Type", "application/json"); a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Fatalf("a command with the rights of roost_service: %d %s %v", a.status, a.body, a.err)
		}
	}
	add(`{"value":5}`)
	writes := []string{
		"UPDATE roost.record SET body = ''", "DELETE FROM roost.record", "TRUNCATE roost.record", "INSERT INTO roost.record (entity, seq, body) SELECT entity, seq + 1, body FROM roost.record",
		"UPDATE roost.fence SET epoch = epoch + 1", "DELETE FROM roost.fence", "UPDATE roost.entity SET last = last + 1", "DELETE FROM roost.entity", "DELETE FROM roost.snapshot",
		"UPDATE roost.meta SET cluster = 'mine'", "DELETE FROM roost.type", "ALTER TABLE roost.record DISABLE TRIGGER ALL", "DROP TABLE roost.record", "DROP SCHEMA roost CASCADE",
		"CREATE TABLE roost.mine (x int)", "SET ROLE postgres",
	}
	matrix := map[string][]string{"region": writes, "checker": writes, "gateway": append([]string{"SELECT * FROM roost.record", "SELECT * FROM roost.fence"}, writes...)}
	tried := 0
	for role, statements := range matrix {
		conn, err := pgx.Connect(ctx, server.URL(role, name))
		must(t, err)
		for _, sql := range statements {
			tried++
			_, err := conn.Exec(ctx, sql)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "42501" { // insufficient_privilege
				t.Errorf("%s: %s: %v, want it forbidden", role, sql, err)
			}
		}
		_ = conn.Close(ctx)
	}
	add(`{"value":10}`)
	t.Logf("%d statements of three roles are forbidden; a cluster works with the rights of roost_service", tried)
}

// secrets: what is secret is in no log, audit, command line or printed configuration.
func secrets(t *testing.T, r *rig) {
	const canary = "Canary-7f3a"
	environment := append(os.Environ(), "ROOST_JOURNAL_URL=postgres://roost:"+canary+"@127.0.0.1:1/roost", "ROOST_LEASE_URL=etcd://root:"+canary+"@127.0.0.1:1/roost?token="+canary)
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator")
	for _, args := range [][]string{{"--print-config"}, {"--help"}, {"--journal.url=postgres://roost:" + canary + "@127.0.0.1:1/x", "--no.such.key=" + canary + "x"}, {"--lease.ttl=" + "postgres://a:" + canary + "@b/c"}} {
		cmd := exec.Command(filepath.Join(bin, "coordinator"), args...)
		cmd.Env = environment
		out, _ := cmd.CombinedOutput()
		if bytes.Contains(out, []byte(":"+canary)) || args[0] == "--print-config" && (!bytes.Contains(out, []byte("127.0.0.1:1/roost")) || bytes.Contains(out, []byte(canary))) {
			t.Errorf("%v prints %s", args, out)
		}
	}
	// A process that cannot reach its stores says so, without its password.
	output := &output{}
	cmd := exec.Command(filepath.Join(bin, "coordinator"), "--service.listen=127.0.0.1:0", "--management.listen=127.0.0.1:0", "--log.level=debug")
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, output, output
	must(t, cmd.Start())
	eventually(t, "the log speaks of the journal", func() error {
		if !strings.Contains(output.String(), "127.0.0.1:1") {
			return fmt.Errorf("it has %s", output.String())
		}
		return nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if strings.Contains(output.String(), canary) {
		t.Errorf("the log shows a password: %s", output.String())
	}

	all := map[string]string{"the logs": r.logs(t)}
	for _, p := range r.processes {
		audit, err := os.ReadFile(r.path(p.Name + ".audit"))
		must(t, err)
		all["the audit of "+p.Name] = string(audit)
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		must(t, err)
		all["the command line of "+p.Name] = string(line)
		all["the metrics of "+p.Name] = do(r.client, "GET", "http://"+p.Management+"/metrics", "").body
	}
	key, err := os.ReadFile(r.path("region-1.key"))
	must(t, err)
	for where, text := range all {
		for what, secret := range map[string]string{
			"a management token": r.operator, "a token for reading": r.reader, "an API key": r.load, "the flood's API key": r.flood, "a private key": strings.Split(string(key), "\n")[1],
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
		if strings.Contains(text, "eyJhbGciOi") {
			t.Errorf("a JSON Web Token is in %s", where)
		}
	}
	t.Logf("keys, tokens and passwords are not in %d logs, audits, command lines and metrics, nor in printed configurations", len(all))
}

// output is the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
