package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// TestAuditIsDurableFirst: the line is in the file while the action runs; payloads are not in it.
func TestAuditIsDurableFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, err := OpenAudit(path, "c1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	end, err := a.Begin(t.Context(), "Admin/Command", &adminv1.CommandRequest{Type: "Cart", Id: "anna", Reason: "a broken cart", Payload: []byte("canary")})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte(`"reason":"a broken cart"`)) || !bytes.Contains(text, []byte("anna")) || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("Y2FuYXJ5")) {
		t.Errorf("before the action: %s, %v", text, err)
	}
	end("ok")
	end("ok")
	if text, _ = os.ReadFile(path); bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("after it: %s", text)
	}
}

// TestAuditCountsRepetitions: equal requests have one begin and one end, and a line with the number of repetitions when
// they have ceased. That line is in a new file if the file was renamed meanwhile.
func TestAuditCountsRepetitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, err := OpenAudit(path, "c1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for range 3 { // two repetitions
		end, err := a.Begin(t.Context(), "Membership/Down", &membershipv1.NodeRequest{Node: "r1"})
		if err != nil {
			t.Fatal(err)
		}
		end("ok")
	}
	if text, err := os.ReadFile(path); err != nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("before they have ceased: %s, %v", text, err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.forget(time.Now().Add(time.Hour))
	a.mu.Unlock()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got AuditLine
	if err := json.Unmarshal(text, &got); err != nil || got.Phase != "repeated" || got.Times != 2 {
		t.Errorf("after the rotation: %s, %v", text, err)
	}
}

// failing is the handler of a log that cannot be written.
type failing struct{ slog.Handler }

func (failing) Handle(context.Context, slog.Record) error { return io.ErrClosedPipe }

// TestAuditInLog: nothing is done if the log, which the audit is in without a file, cannot be written.
func TestAuditInLog(t *testing.T) {
	a, err := OpenAudit("", "c1", slog.New(failing{slog.DiscardHandler}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Begin(t.Context(), "Membership/Down", nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an audit line that cannot be written: %v", err)
	}
}

// TestAuditAfterTornLine: a line is a line of its own although the previous one was written only in part, by this
// process or by an earlier one.
func TestAuditAfterTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	last := func() (got AuditLine, lines int) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		if err := json.Unmarshal(all[len(all)-1], &got); err != nil {
			t.Errorf("the last line of %q: %v", text, err)
		}
		return got, len(all)
	}
	if err := os.WriteFile(path, []byte(`{"time":"2026-01`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := OpenAudit(path, "c1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	begin := func(node string) error {
		_, err := a.Begin(t.Context(), "Membership/Down", &membershipv1.NodeRequest{Node: node})
		return err
	}
	if err := begin("r1"); err != nil {
		t.Fatal(err)
	}
	if got, lines := last(); got.Phase != "begin" || lines != 2 {
		t.Errorf("after a part of a line of an earlier process: %+v, %d lines", got, lines)
	}
	// A file that cannot be written fails as a full disk does, and may have a part of the line.
	writable := a.file
	if a.file, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	if err := begin("r2"); err == nil {
		t.Error("a line that cannot be written: no error")
	}
	if err := errors.Join(a.file.Close(), os.WriteFile(path, []byte(`{"time":"2026-02`), 0o600)); err != nil {
		t.Fatal(err)
	}
	a.file = writable
	if err := begin("r2"); err != nil {
		t.Fatal(err)
	}
	if got, lines := last(); got.Phase != "begin" || lines != 2 {
		t.Errorf("after a part of a line of its own: %+v, %d lines", got, lines)
	}
	end, err := a.Begin(t.Context(), "Membership/Down", &membershipv1.NodeRequest{Node: "r3"})
	if err != nil {
		t.Fatal(err)
	}
	end("ok")
	if got, lines := last(); got.Phase != "end" || lines != 4 {
		t.Errorf("whole lines: %+v, %d lines", got, lines)
	}
}
