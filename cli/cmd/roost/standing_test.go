package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Reminders has three, and a page of two. The last one cannot be read.
func (f *fakeAdmin) Reminders(_ context.Context, req *adminv1.RemindersRequest) (*adminv1.RemindersResponse, error) {
	all := []*adminv1.Reminder{
		{Type: "Cart", Id: "dora", Name: "expire", DueUnixMs: 1_800_000_000_000, Command: "Expire"},
		{Type: "Cart", Id: "emil", Name: "tick", DueUnixMs: 1_800_000_000_250, PeriodMs: 90_000, Command: "Tick"},
		{Type: "Item", Id: "a/b", Name: "count", DueUnixMs: 1_900_000_000_000},
	}
	if req.Type == "Evil" {
		all = []*adminv1.Reminder{
			{Type: "Evil", Id: strings.Repeat("i", 256), Name: "a\nCart/dora  \x1b[31mexpire", DueUnixMs: 1_800_000_000_000, Command: "Expire"},
			{Type: "Evil", Id: "exe.\u202egpj", Name: "b  2027", DueUnixMs: 1_800_000_000_000, Command: "Expire"},
		}
	}
	res := &adminv1.RemindersResponse{}
	if req.Failing {
		all[1].Failure = &adminv1.Failure{SinceUnixMs: 1_800_000_000_300, Times: 7, NextUnixMs: 1_800_000_060_000, Code: "unavailable", Message: "no\x1b[31m clock\nhere " + strings.Repeat("x", 500), Region: "region-1"}
		all, res.More, res.Silent = all[1:2], true, []*adminv1.Silent{{Region: "region-2", Reason: "no answer within 500ms"}, {Region: "region-2", Reason: "no answer within 500ms"}}
	}
	var found []*adminv1.Reminder
	for _, r := range all {
		if (req.Type == "" || req.Type == r.Type) && (req.Id == "" || req.Id == r.Id) && (req.DueBeforeUnixMs == 0 || r.DueUnixMs < req.DueBeforeUnixMs) {
			found = append(found, r)
		}
	}
	res.Reminders = found
	if req.After != "" {
		res.Reminders = found[2:]
	} else if most := min(2, int(req.Limit)); len(found) > most {
		res.Reminders, res.Next = found[:most], "two"
	}
	for _, r := range res.Reminders {
		if r.Command == "" {
			res.Damaged = append(res.Damaged, "reminder of "+r.Id)
		}
	}
	return res, f.check()
}

// Sends has a dead letter, and what is pending on a second page. A page between them is empty.
func (f *fakeAdmin) Sends(_ context.Context, req *adminv1.SendsRequest) (*adminv1.SendsResponse, error) {
	res := &adminv1.SendsResponse{}
	switch {
	case req.Type == "Plane":
		return nil, twirp.NewError(twirp.NotFound, "no entity type Plane")
	case req.After == "":
		res.Sends = []*adminv1.Send{{Type: "Cart", Id: "dora", Record: 7, TargetType: "Item", TargetId: "book", Command: "Reserve", State: "in doubt", SentUnixMs: 1_700_000_000_000}}
		if !req.Dead {
			res.Next = "empty"
		}
	case req.After == "empty":
		res.Next = "pending"
	case req.After == "pending":
		res.Sends = []*adminv1.Send{{Type: "Cart", Id: "emil", Record: 12, Place: 3, TargetType: "Item", TargetId: "pen", Command: "Reserve", State: "pending", SentUnixMs: 1_700_000_000_001, ReplyTo: "Reserved"}}
	}
	if req.Failing {
		fails := func() *adminv1.Failure {
			return &adminv1.Failure{Times: 3, NextUnixMs: 1_700_000_060_000, Code: "unavailable", Message: "closed"}
		}
		one := res.Sends[0]
		one.State, one.Failure, one.UntilUnixMs = "pending", fails(), 1_700_003_600_000
		res.Next = ""
		res.Sends = append(res.Sends, &adminv1.Send{Type: "Cart", Id: "emil", Record: 12, Place: 3, TargetType: "Item", TargetId: "pen", Command: "Reserve", State: "pending", SentUnixMs: 1_700_000_000_001, Failure: fails(), Behind: true},
			&adminv1.Send{Type: "Cart", Id: "emil", Record: 13, TargetType: "Item", TargetId: "ink", Command: "Reserve", State: "pending", SentUnixMs: 1_700_000_000_001, Failure: fails(), Answer: true})
	}
	return res, f.check()
}

// Remembered has two; one cannot be started.
func (f *fakeAdmin) Remembered(_ context.Context, req *adminv1.RememberedRequest) (*adminv1.RememberedResponse, error) {
	res := &adminv1.RememberedResponse{Remembered: []*adminv1.Remembered{
		{Type: "Probe", Id: "p1", Failure: &adminv1.Failure{SinceUnixMs: 1, Times: 2, Code: "internal", Message: "the entity cannot be brought to life", Region: "region-1"}},
		{Type: "Probe", Id: "p2", ActiveUnixMs: 1_700_000_000_000},
	}}
	if req.Failing {
		res.Remembered = res.Remembered[:1]
	} else {
		res.Silent = []*adminv1.Silent{{Reason: "3 shards have no region now"}}
	}
	return res, f.check()
}

// deadLetter answers the commands that resolve one: the one of record 7 is in doubt.
func (f *fakeAdmin) RetrySends(_ context.Context, req *adminv1.RetrySendsRequest) (*adminv1.RetrySendsResponse, error) {
	if req.Type == "Cart" && req.Id == "dora" && req.TargetType == "Item" && req.TargetId == "" {
		return &adminv1.RetrySendsResponse{Retried: 2, Silent: []*adminv1.Silent{{Region: "region-2", Reason: "no answer"}}}, nil
	}
	return &adminv1.RetrySendsResponse{Retried: 1}, nil
}

func (f *fakeAdmin) deadLetter(req *adminv1.CommandRequest) (*adminv1.CommandResponse, error) {
	var in sharding.DeadLetterInput
	if err := json.Unmarshal(req.Payload, &in); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	switch {
	case in.Record == 9 && req.Command == sharding.SendDropCommand && in.MayHaveRun:
		return &adminv1.CommandResponse{Outcome: "executed", Region: "region-1"}, nil
	case in.Record == 9:
		return &adminv1.CommandResponse{Outcome: "not_applied", Code: "failed_precondition", Message: "it is pending"}, nil
	case in.Record != 7 || in.Place != 1:
		return &adminv1.CommandResponse{Outcome: "not_applied", Code: "not_found", Message: fmt.Sprintf("send %d of record %d is not a dead letter", in.Place, in.Record)}, nil
	case req.Command == sharding.SendDropCommand:
		return &adminv1.CommandResponse{Outcome: "executed", Region: "region-1"}, nil
	case !in.MayRepeat:
		return &adminv1.CommandResponse{Outcome: "not_applied", Code: "failed_precondition", Message: "it is in doubt"}, nil
	}
	return &adminv1.CommandResponse{Outcome: "executed", Region: "region-1", Payload: []byte(`{"record":9,"place":0}`)}, nil
}

// TestStanding: what stands is listed page by page, and dead letters are dealt with by the names
// that the list has.
func TestStanding(t *testing.T) {
	admin := serve(t, &fakeAdmin{})
	const letter = `Cart/dora       7      0  in doubt  2023-11-14T22:13:20.000Z  Item/book  Reserve
`
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"entity reminders", 0, `ENTITY     NAME    DUE                       PERIOD  COMMAND
Cart/dora  expire  2027-01-15T08:00:00.000Z  -       Expire
Cart/emil  tick    2027-01-15T08:00:00.250Z  1m30s   Tick
Item/a/b   count   2030-03-17T17:46:40.000Z  -       -
damaged: reminder of a/b
`},
		{"entity sends retry Cart/dora --to Item", 0, "retried: 2 pairs of a sender and a target; see roost entity sends --failing\nregion-2: no answer\n"},
		{"entity sends retry", 0, "retried: 1 pair of a sender and a target; see roost entity sends --failing\n"},
		{"entity reminders Cart/emil", 0, "ENTITY     NAME  DUE                       PERIOD  COMMAND\nCart/emil  tick  2027-01-15T08:00:00.250Z  1m30s   Tick\n"},
		{"entity reminders Cart emil", 0, "ENTITY     NAME  DUE                       PERIOD  COMMAND\nCart/emil  tick  2027-01-15T08:00:00.250Z  1m30s   Tick\n"},
		{"entity reminders Cart --due-before 2027-01-15T08:00:00.1Z", 0, "ENTITY     NAME    DUE                       PERIOD  COMMAND\nCart/dora  expire  2027-01-15T08:00:00.000Z  -       Expire\n"},
		{"entity reminders Evil", 0, `ENTITY                                                            NAME                            DUE                       PERIOD  COMMAND
Evil/` + strings.Repeat("i", 38) + "…" + strings.Repeat("i", 20) + `  "a\nCart/dora  \x1b[31mexpire"  2027-01-15T08:00:00.000Z  -       Expire
"Evil/exe.\u202egpj"                                              "b  2027"                       2027-01-15T08:00:00.000Z  -       Expire
`},
		{"entity reminders --limit 2 -o json", 0, `{"reminders":[{"type":"Cart","id":"dora","name":"expire","due_unix_ms":"1800000000000","period_ms":"0","command":"Expire","failure":null},` +
			`{"type":"Cart","id":"emil","name":"tick","due_unix_ms":"1800000000250","period_ms":"90000","command":"Tick","failure":null}],"next":"two","damaged":[],"silent":[],"more":false}` + "\n"},
		{"entity reminders --after two", 0, "ENTITY    NAME   DUE                       PERIOD  COMMAND\nItem/a/b  count  2030-03-17T17:46:40.000Z  -       -\ndamaged: reminder of a/b\n"},
		{"entity reminders --failing", 0, `ENTITY     NAME  DUE                       PERIOD  COMMAND  FAILED  NEXT                      REGION    WHY
Cart/emil  tick  2027-01-15T08:00:00.250Z  1m30s   Tick          7  2027-01-15T08:01:00.000Z  region-1  unavailable: no [31m clock here ` + strings.Repeat("x", 368) + `…
what ends in … is longer; -o json has all of it
what fails in region-2 is not known: no answer within 500ms
more fails; name a type or an entity, or ask for more by --limit (at most 1000)
`},
		{"entity reminders --failing --after two", app.ExitUsage, ""},
		{"entity reminders --failing --due-before 1h", app.ExitUsage, ""},
		{"entity remembered", 0, `ENTITY    ACTIVE                    FAILED  NEXT  REGION    WHY
Probe/p1  -                              2  -     region-1  internal: the entity cannot be brought to life
Probe/p2  2023-11-14T22:13:20.000Z       -  -     -         -
3 shards have no region now
`},
		{"entity remembered --failing -o json", 0, `{"remembered":[{"type":"Probe","id":"p1","active_unix_ms":"0","failure":{"since_unix_ms":"1","times":2,"next_unix_ms":"0","code":"internal",` +
			`"message":"the entity cannot be brought to life","region":"region-1"}}],"next":"","damaged":[],"silent":[],"more":false}` + "\n"},
		{"entity remembered --failing --after x", app.ExitUsage, ""},
		{"entity sends --failing", 0, `SENDER     RECORD  PLACE  STATE    SENT                      TARGET     COMMAND  UNTIL                     FAILED  NEXT                      REGION  WHY
Cart/dora       7      0  pending  2023-11-14T22:13:20.000Z  Item/book  Reserve  2023-11-14T23:13:20.000Z       3  2023-11-14T22:14:20.000Z  -       unavailable: closed
Cart/emil      12      3  pending  2023-11-14T22:13:20.001Z  Item/pen   Reserve  -                              3  2023-11-14T22:14:20.000Z  -       waits for an earlier one: unavailable: closed
Cart/emil      13      0  pending  2023-11-14T22:13:20.001Z  Item/ink   Reserve  -                              3  2023-11-14T22:14:20.000Z  -       the sender cannot take the answer: unavailable: closed
`},
		{"entity sends --failing --dead", app.ExitUsage, ""},
		{"entity reminders --due-before soon", app.ExitUsage, "roost: --due-before \"soon\": write a time such as 2026-07-01T12:00:00Z, or how long it is until then, such as 1h\n"},
		{"entity reminders --limit 0", app.ExitUsage, "roost: --limit is 0; it must be at least 1\n"},
		{"entity reminders Cart/", app.ExitUsage, "roost: \"Cart/\" is not the name of an entity: write TYPE or TYPE/ID, such as Cart or Cart/dora\n"},
		{"entity sends", 0, `SENDER     RECORD  PLACE  STATE     SENT                      TARGET     COMMAND
` + letter + `Cart/emil      12      3  pending   2023-11-14T22:13:20.001Z  Item/pen   Reserve
`},
		{"entity sends Cart --dead", 0, "SENDER     RECORD  PLACE  STATE     SENT                      TARGET     COMMAND\n" + letter},
		{"entity sends Cart/dora --limit 1", 0, "SENDER     RECORD  PLACE  STATE     SENT                      TARGET     COMMAND\n" + letter + "more are left; go on with --after empty\n"},
		{"entity sends --dead -o json", 0, `{"sends":[{"type":"Cart","id":"dora","record":"7","place":0,"target_type":"Item","target_id":"book","command":"Reserve",` +
			`"state":"in doubt","sent_unix_ms":"1700000000000","reply_to":"","failure":null,"behind":false,"answer":false,"waiting":0,"until_unix_ms":"0"}],"next":"","damaged":[],"silent":[],"more":false}` + "\n"},
		{"entity sends Plane", app.ExitNotFound, "roost: no entity type Plane\n"},
		{"entity sends again Cart/dora 7 1 --reason back", app.ExitFailed, "roost: failed_precondition: it is in doubt (it was not applied)\n"},
		{"entity sends again Cart/dora 7 1 --reason back --may-repeat", 0, "Cart/dora 7 1 is sent again, as Cart/dora 9 0 (by region-1)\n"},
		{"entity sends again Cart/dora 7 1 --reason back --may-repeat -o json", 0, `{"id":"dora","place":1,"record":7,"region":"region-1","sent":{"record":9,"place":0},"type":"Cart"}` + "\n"},
		{"entity sends drop Cart/dora 7 1 --reason done", 0, "Cart/dora 7 1 is dropped (by region-1)\n"},
		{"entity sends drop Cart/dora 7 1 --reason done -o json", 0, `{"dropped":true,"id":"dora","place":1,"record":7,"region":"region-1","type":"Cart"}` + "\n"},
		{"entity sends drop Cart/dora 9 0 --reason done", app.ExitFailed, "roost: failed_precondition: it is pending (it was not applied)\n"},
		{"entity sends drop Cart/dora 9 0 --reason done --may-have-run", 0, "Cart/dora 9 0 is dropped (by region-1)\n"},
		{"entity sends drop Cart/dora 8 1 --reason done", app.ExitNotFound, "roost: not_found: send 1 of record 8 is not a dead letter (it was not applied)\n"},
		{"entity sends drop Cart/dora 7 1", app.ExitUsage, "roost: --reason is missing; say why, for the log\n"},
		{"entity sends drop Cart/dora 0 1 --reason done", app.ExitUsage, "roost: \"0\" is not the number of a record, which is 1 or more\n"},
		{"entity sends drop Cart/dora 7 4294967295 --reason done", app.ExitUsage, "roost: \"4294967295\" is not the place of a send, which is a number from 0 to 65535\n"},
		{"entity sends drop Cart/dora 7 -- -1 --reason done", app.ExitUsage, ""},
		{"entity sends drop Cart 7 1 --reason done", app.ExitUsage, "roost: \"Cart\" is not the name of an entity: write TYPE/ID, such as Cart/dora\n"},
	} {
		code, out, errOut := roost(t, append([]string{"--admin", admin}, strings.Fields(test.command)...)...)
		if code != test.code || test.want != "" && out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
}
