package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
)

// crowdSnapshot is the number of events of a Crowd before its snapshot.
const crowdSnapshot = 100

// setting is the input of Set of a Crowd: a reminder.
type setting struct {
	First int64 `json:"first"`
	Count int64 `json:"count"`
	At    int64 `json:"at"`
}

// playRepairRecord damages a record, a reminder and a snapshot of entities of one shard, by a byte each, has roost
// entity explain name the damage, and repairs them while the other entities of the shard are called.
func playRepairRecord(l *livingRun) {
	later := time.Now().Add(time.Hour).UnixMilli()
	set := func(id string, n int64) {
		_, err := l.count("/v1/Crowd/"+id+"/Set", fmt.Sprint(id, "-", n), setting{First: n, Count: 1, At: later})
		l.must(err)
	}
	for n := range int64(6) { // records 1 to 6
		set("hurt", n)
		set("rung", n)
	}
	l.each(crowdSnapshot+1, 1, func(i int) error { set("shot", int64(i)); return nil })
	l.stored1("SELECT s.body FROM snapshot s JOIN entity e ON e.id = s.entity WHERE e.name = %s", "shot")

	l.damage("UPDATE record SET body = %s WHERE seq = 4 AND entity = (SELECT id FROM entity WHERE name = %s)",
		l.stored1("SELECT r.body FROM record r JOIN entity e ON e.id = r.entity WHERE r.seq = 4 AND e.name = %s", "hurt"), "hurt")
	l.damage("UPDATE record SET body = %s WHERE seq = 4 AND entity = (SELECT id FROM entity WHERE name = %s)",
		l.stored1("SELECT r.body FROM record r JOIN entity e ON e.id = r.entity WHERE r.seq = 4 AND e.name = %s", "rung"), "rung")
	l.damage("UPDATE snapshot SET body = %s WHERE entity = (SELECT id FROM entity WHERE name = %s)",
		l.stored1("SELECT s.body FROM snapshot s JOIN entity e ON e.id = s.entity WHERE e.name = %s", "shot"), "shot")
	l.allowDeath("it is killed, so that its entities are loaded again", l.regionNames()...)
	l.kill(l.regionNames()...)
	l.up()

	// The other entities of the shard are called all the while.
	ctx, stop := context.WithCancel(l.Context())
	var acked atomic.Int64
	ended := make(chan error, 1)
	go func() {
		var err error
		for n := int64(0); err == nil && ctx.Err() == nil; n++ {
			if _, err = l.count("/v1/Crowd/sound/Set", fmt.Sprint("sound-", n), setting{Count: 1, At: later}); err == nil {
				acked.Add(1)
			}
		}
		ended <- err
	}()
	l.refused("hurt", "data_loss")
	l.refused("shot", "data_loss")
	for _, id := range []string{"hurt", "shot"} {
		l.explained(id)
	}
	if says := l.command("journal", "repair", "find"); !strings.Contains(says, "Crowd/hurt") || !strings.Contains(says, "Crowd/rung") || !strings.Contains(says, "Crowd/shot") || strings.Contains(says, "Crowd/sound") {
		l.Errorf("roost journal repair find: %s", says)
	}
	l.goBack(later)
	l.skipAndDrop()
	l.rebuild()
	l.audited()
	stop()
	l.must(<-ended)
	n, err := l.count("/v1/Crowd/sound/Get", "", struct{}{})
	l.must(err)
	if n != acked.Load() {
		l.Errorf("%d commands for another entity of the shard were acknowledged, and %d are stored", acked.Load(), n)
	}
	l.figures = append(l.figures, fmt.Sprintf("%d commands for another entity of the shard", n))
}

// explained waits until roost entity explain names the damage of an entity, and what to do.
func (l *livingRun) explained(id string) {
	l.Helper()
	for deadline := time.Now().Add(waitLimit); ; l.wait(50 * time.Millisecond) {
		says := l.command("entity", "explain", "Crowd/"+id)
		if strings.Contains(says, "entity-damaged") && strings.Contains(says, "roost journal repair record Crowd/"+id) {
			return
		}
		if time.Now().After(deadline) {
			l.Errorf("roost entity explain does not name the damage of %s, and what to do: %s", id, says)
			return
		}
	}
}

// repairedEntity is the output of roost journal repair.
type repairedEntity struct {
	DryRun  bool       `json:"dry_run"`
	Records []struct{} `json:"records_set_aside"`
	Wakes   []struct{} `json:"wakeups_removed"`
	After   []struct{} `json:"damaged_after"`
}

func (l *livingRun) repair(args ...string) (r repairedEntity) {
	l.Helper()
	raw := l.command(append([]string{"journal", "repair"}, args...)...)
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		l.Fatalf("roost journal repair %v: %s", args, raw)
	}
	return r
}

// goBack sets what is behind the last good record aside.
func (l *livingRun) goBack(later int64) {
	l.Helper()
	before := l.stored1("SELECT r.body FROM record r JOIN entity e ON e.id = r.entity WHERE r.seq = 6 AND e.name = %s", "hurt")
	file := filepath.Join(l.dir, "hurt.jsonl")
	dry := l.repair("record", "Crowd/hurt", "--back-to=3", "--dry-run")
	after := l.stored1("SELECT r.body FROM record r JOIN entity e ON e.id = r.entity WHERE r.seq = 6 AND e.name = %s", "hurt")
	if !dry.DryRun || len(dry.Records) != 3 || len(dry.Wakes) != 3 || string(before) != string(after) {
		l.Errorf("a dry run: %+v", dry)
	}
	l.refused("hurt", "data_loss")
	began := time.Now()
	done := l.repair("record", "Crowd/hurt", "--back-to=3", "--out="+file, "--reason=a test")
	if done.DryRun || len(done.Records) != 3 || len(done.After) > 0 {
		l.Errorf("a repair: %+v", done)
	}
	n, err := l.count("/v1/Crowd/hurt/Set", "hurt-again", setting{First: 9, Count: 1, At: later})
	l.must(err)
	l.figures = append(l.figures, fmt.Sprintf("repaired and served after %v", time.Since(began).Round(10*time.Millisecond)))
	if n != 4 {
		l.Errorf("after the repair and a command it has %d events, want 4", n)
	}
	// A repeat of a command that was set aside is refused for that reason, and does not run again.
	raw, refused, err := l.post(l.Context(), "/v1/Crowd/hurt/Set", "hurt-5", setting{First: 5, Count: 1, At: later}, waitLimit)
	if err == nil && (refused == nil || refused.Code != "aborted") {
		l.Errorf("a repeat of a command that was set aside gets %s, %+v", raw, refused)
	}
}

// skipAndDrop sets one record aside, and drops a reminder without its region.
func (l *livingRun) skipAndDrop() {
	l.Helper()
	done := l.repair("record", "Crowd/rung", "--skip=4", "--out="+filepath.Join(l.dir, "rung.jsonl"), "--reason=a test")
	if len(done.Records) != 1 || len(done.Wakes) != 1 || len(done.After) > 0 {
		l.Errorf("a skip: %+v", done)
	}
	n, err := l.count("/v1/Crowd/rung/Get", "", struct{}{})
	l.must(err)
	if n != 5 {
		l.Errorf("after the skip it has %d events, want 5", n)
	}
	l.command("entity", "reminders", "drop", "Crowd/rung", "r1", "--reason=a test", "--journal.url="+l.journalURL)
	if says := l.command("entity", "reminders", "Crowd/rung"); strings.Contains(says, `"r1"`) || strings.Contains(says, `"r3"`) || !strings.Contains(says, `"r5"`) {
		l.Errorf("its reminders: %s", says)
	}
}

// rebuild drops a damaged snapshot.
func (l *livingRun) rebuild() {
	l.Helper()
	l.repair("snapshot", "Crowd/shot", "--out="+filepath.Join(l.dir, "shot.jsonl"), "--reason=a test")
	n, err := l.count("/v1/Crowd/shot/Get", "", struct{}{})
	l.must(err)
	if n != crowdSnapshot+1 {
		l.Errorf("without its snapshot it has %d events, want %d", n, crowdSnapshot+1)
	}
	if says := l.command("journal", "repair", "find"); !strings.Contains(says, `"damaged":0`) {
		l.Errorf("something is still damaged: %s", says)
	}
}

// audited checks that there is a line of each repair.
func (l *livingRun) audited() {
	l.Helper()
	says := l.command("journal", "repair", "ls")
	for _, did := range []string{"went back to record 3", "skipped record 4", "dropped reminder r1", "dropped the snapshot"} {
		if strings.Count(says, did) != 1 || !strings.Contains(says, "a test") {
			l.Errorf("the audit lines do not say %q once: %s", did, says)
		}
	}
}

// refused checks that an entity refuses its commands.
func (l *livingRun) refused(id, code string) {
	l.Helper()
	deadline := time.Now().Add(waitLimit)
	for {
		_, refused, err := l.post(l.Context(), "/v1/Crowd/"+id+"/Get", "", struct{}{}, waitLimit)
		if err == nil && refused != nil && refused.Code == code {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("a command for %s is not refused with %s: %+v, %v", id, code, refused, err)
		}
		l.wait(50 * time.Millisecond)
	}
}

// command runs the roost command on the journal and the cluster. An exit code of 1 is an answer, too.
func (l *livingRun) command(args ...string) string {
	l.Helper()
	out, err := l.tryRoost(append(args, "--admin="+strings.Join(l.cluster.Admin(), ","))...)
	if err != nil && (len(out) == 0 || out[0] != '{') {
		l.Fatalf("roost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *livingRun) regionNames() (names []string) {
	for _, p := range l.cluster.Processes() {
		if p.Role == cluster.Region {
			names = append(names, p.Name)
		}
	}
	return names
}

// stored1 waits until a query about an entity has a row, and returns its bytes.
func (l *livingRun) stored1(query, id string) (body []byte) {
	l.Helper()
	var name any = id
	if l.store == onPostgres {
		name = []byte(id)
	}
	for deadline := time.Now().Add(waitLimit); ; l.wait(50 * time.Millisecond) {
		err := l.db.QueryRowContext(l.Context(), l.sql(query), name).Scan(&body)
		if err == nil {
			return body
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: %v", query, err)
		}
	}
}

// damage stores bytes of an entity again, with one of them changed.
func (l *livingRun) damage(statement string, body []byte, id string) {
	l.Helper()
	body[len(body)-3] ^= 0x10
	var name any = id
	if l.store == onPostgres {
		name = []byte(id)
	}
	for deadline := time.Now().Add(waitLimit); ; l.wait(10 * time.Millisecond) { // a region writes periodically
		res, err := l.db.ExecContext(l.Context(), l.sql(statement), body, name)
		if err == nil {
			if n, _ := res.RowsAffected(); n != 1 {
				l.Fatalf("%s: %d rows", statement, n)
			}
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: %v", statement, err)
		}
	}
}

// sql numbers the parameters of a statement.
func (l *livingRun) sql(statement string) string {
	for n := 1; strings.Contains(statement, "%s"); n++ {
		statement = strings.Replace(statement, "%s", fmt.Sprint("$", n), 1)
	}
	return statement
}
