package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/examples/bank"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

func TestBanking(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	for _, step := range []struct{ line, prints, fails string }{
		{line: "open alice 10000", prints: "100.00, 0.00 on the way"},
		{line: "open bob 0", prints: "0.00, 0.00 on the way"},
		{line: "transfer alice bob 2500", prints: "75.00, 25.00 on the way"},
		{line: "show bob", prints: "25.00, 0.00 on the way"},
		{line: "transfer alice nobody 500", prints: "70.00, 5.00 on the way"},
		{line: "show alice", prints: "75.00, 0.00 on the way"},
		{line: "close bob alice", prints: "0.00, 25.00 on the way"},
		{line: "show bob", prints: "not open"},
		{line: "transfer alice bob 10001", fails: "the balance is 10000"},
		{line: "run 5 100", prints: "500.00 in all, before and after"},
		{line: "run 1 100", fails: "wrong usage"},
		{line: "transfer alice bob", fails: "wrong usage"},
		{line: "open alice -1", fails: "wrong usage"},
		{line: "rob alice", fails: "wrong usage"},
		{line: "", fails: "wrong usage"},
	} {
		got, err := teller{k, "key " + step.line}.do(t.Context(), strings.Fields(step.line))
		if step.fails == "" && (err != nil || !strings.HasSuffix(got, step.prints)) || step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails)) {
			t.Errorf("bank %s: %q, %v", step.line, got, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "usage: bank"},
		{[]string{"-nonsense"}, 2, "usage: bank"},
		{[]string{"-gateway", "localhost", "show", "alice"}, 2, "is not a base URL"},
		{[]string{"show"}, 2, "see bank -h"},
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), tc.args, &out, &errOut); code != tc.code || !strings.Contains(errOut.String(), tc.says) || out.Len() > 0 {
			t.Errorf("bank %q: exit code %d\n%s%s", tc.args, code, &out, &errOut)
		}
	}
}
