package server

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestFailures(t *testing.T) {
	reply := func(o sharding.Outcome, c sharding.Code) *failure {
		return failureOf(&router.Finish{Reply: sharding.Reply{Outcome: o, Code: c, Message: "why"}})
	}
	busy := failureOf(&router.Finish{Reply: sharding.Reject(sharding.ResourceExhausted, "why"), RetryAfter: 1001})
	for _, c := range []struct {
		f                     *failure
		code, outcome, number string
		status                int
		twirp                 twirp.ErrorCode
		retryAfter            string
	}{
		{reply(sharding.Executed, sharding.InvalidArgument), "invalid_argument", "executed", "", 400, twirp.InvalidArgument, ""},
		{reply(sharding.Executed, sharding.FailedPrecondition), "failed_precondition", "executed", "", 412, twirp.FailedPrecondition, ""},
		{reply(sharding.Executed, "unauthenticated"), "unauthenticated", "executed", "", 401, twirp.Unauthenticated, ""},
		{reply(sharding.Executed, "out_of_milk"), "out_of_milk", "executed", "", 500, twirp.Unknown, ""},
		{reply(sharding.NotApplied, sharding.InvalidArgument), "invalid_argument", "not_applied", "ROOST-1001", 400, twirp.InvalidArgument, ""},
		{reply(sharding.NotApplied, sharding.NotFound), "not_found", "not_applied", "ROOST-1002", 404, twirp.NotFound, ""},
		{reply(sharding.NotApplied, sharding.Unimplemented), "unimplemented", "not_applied", "ROOST-1003", 501, twirp.Unimplemented, ""},
		{reply(sharding.Executed, sharding.ReplyLost), "resource_exhausted", "executed", "ROOST-1014", 429, twirp.ResourceExhausted, ""},
		{busy, "resource_exhausted", "not_applied", "ROOST-1004", 429, twirp.ResourceExhausted, "2"},
		{reply(sharding.NotApplied, sharding.UnknownCommand), "unavailable", "not_applied", "ROOST-1015", 503, twirp.Unavailable, ""},
		{reply(sharding.Unknown, sharding.UnknownCommand), "unavailable", "unknown", "ROOST-1102", 503, twirp.Unavailable, ""},
		{reply(sharding.NotApplied, sharding.Unavailable), "unavailable", "not_applied", "ROOST-1005", 503, twirp.Unavailable, ""},
		{reply(sharding.NotApplied, sharding.DeadlineExceeded), "deadline_exceeded", "not_applied", "ROOST-1006", 408, twirp.DeadlineExceeded, ""},
		{reply(sharding.NotApplied, sharding.AlreadyExists), "already_exists", "not_applied", "ROOST-1007", 409, twirp.AlreadyExists, ""},
		{reply(sharding.NotApplied, sharding.Internal), "internal", "not_applied", "ROOST-1008", 500, twirp.Internal, ""},
		{reply(sharding.NotApplied, sharding.DataLoss), "data_loss", "not_applied", "ROOST-1008", 500, twirp.DataLoss, ""},
		{reply(sharding.NotApplied, sharding.OutOfRange), "out_of_range", "not_applied", "ROOST-1009", 400, twirp.OutOfRange, ""},
		{reply(sharding.NotApplied, ""), "internal", "not_applied", "ROOST-1008", 500, twirp.Internal, ""},
		{reply(sharding.Unknown, sharding.DeadlineExceeded), "deadline_exceeded", "unknown", "ROOST-1101", 408, twirp.DeadlineExceeded, ""},
		{reply(sharding.Unknown, sharding.Unavailable), "unavailable", "unknown", "ROOST-1102", 503, twirp.Unavailable, ""},
		{reply(sharding.Unknown, sharding.Aborted), "aborted", "unknown", "ROOST-1102", 409, twirp.Aborted, ""},
		{reply(sharding.Unknown, sharding.KeyExpired), "aborted", "unknown", "ROOST-1103", 409, twirp.Aborted, ""},
		{reply(0, ""), "internal", "unknown", "ROOST-1102", 500, twirp.Internal, ""},
		{noRoute("why"), "bad_route", "not_applied", "ROOST-1010", 404, twirp.BadRoute, ""},
		{notAllowed("why"), "bad_route", "not_applied", "ROOST-1010", 405, twirp.BadRoute, ""},
		{tooLong(1), "invalid_argument", "not_applied", "ROOST-1011", 413, twirp.InvalidArgument, ""},
		{unsupported("Content-Type", "x", "send y"), "invalid_argument", "not_applied", "ROOST-1012", 415, twirp.InvalidArgument, ""},
	} {
		w := httptest.NewRecorder()
		c.f.write(w)
		var got struct {
			Code, Msg string
			Meta      map[string]string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || got.Code != c.code || got.Msg != c.f.message || got.Msg == "" && c.f.message != "" ||
			got.Meta["outcome"] != c.outcome || got.Meta["error"] != c.number || w.Header().Get("Retry-After") != c.retryAfter {
			t.Errorf("%s %s: got %d %s, Retry-After %q", c.code, c.outcome, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if entry, ok := errornumber.Find(c.f.number); ok != (c.number != "") || ok && (entry.Outcome != c.f.outcome || !entry.Comes(c.code, c.status)) {
			t.Errorf("%s %s %d comes with %q, which the table describes as %+v", c.code, c.outcome, c.status, c.number, entry)
		}
		e := c.f.twirp()
		meta := c.f.meta()
		if c.twirp == twirp.Unknown {
			meta["code"] = c.code
		}
		if e.Code() != c.twirp || e.Msg() != c.f.message || !maps.Equal(e.MetaMap(), meta) {
			t.Errorf("%s: as a Twirp error %v with %v", c.code, e, e.MetaMap())
		}
		if r := c.f.result().Error; r.Code != c.code || r.Outcome != c.outcome || int(r.RetryAfterMs) != c.f.retryAfter {
			t.Errorf("%s: as a result %v", c.code, r)
		}
	}
	if got := busy.meta()["retry_after_ms"]; got != "1001" {
		t.Errorf("retry_after_ms is %q", got)
	}
	if f := reply(sharding.Executed, ""); f != nil {
		t.Errorf("success became %v", f)
	}
}

// TestMeasures: every outcome is counted, and no name from outside becomes an attribute.
func TestMeasures(t *testing.T) {
	var registry histogram.Registry
	m := newMeasures(registry.New(histogram.Desc{}), "T")
	if m.of(nil) == nil || m.of(noRoute("")) == nil || m.of(refusal(sharding.Unavailable, "")) == nil {
		t.Error("an outcome is not counted")
	}
	odd := failureOf(&router.Finish{Reply: sharding.Reply{Outcome: sharding.Executed, Code: "out_of_milk"}})
	if got := m.of(odd); got == nil || got != m[ending{sharding.Internal, sharding.Executed}] {
		t.Error("an unknown code is not counted as internal")
	}
	if (&types{other: m}).measures("nobody's") == nil {
		t.Error("an unknown type is not counted")
	}
}

func TestMilliseconds(t *testing.T) {
	for _, us := range []int64{0, 1, 10, 100, 999, 1000, 1010, 1_234_567, 60_000_000} {
		want := strconv.FormatFloat(float64(us)/1000, 'f', -1, 64)
		if got := string(appendMilliseconds(nil, time.Duration(us)*time.Microsecond)); got != want {
			t.Errorf("%d µs are %s ms, want %s", us, got, want)
		}
	}
}
