package bank_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/examples/bank"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// TestCrashes crashes the region at each commit of a transfer. The money moves once.
func TestCrashes(t *testing.T) {
	for _, id := range []string{"alice", "bob"} {
		for _, when := range []entitytest.Crash{entitytest.BeforeCommit, entitytest.AfterCommit} {
			t.Run(fmt.Sprint(id, when), func(t *testing.T) {
				k := entitytest.New(t, bank.Accounts)
				rich(t, k, "alice", 10000, 0)
				rich(t, k, "bob", 0, 0)
				k.Entity(bank.Accounts, id).CrashAtCommit(when)
				order := bank.Order{ID: "rent", To: "bob", Amount: 9000}
				_, err := bank.Transfer.Call(t.Context(), k, "alice", order, entity.Key("rent"))
				if err != nil && entity.OutcomeOf(err) == entity.Unknown { // as a caller does
					_, err = bank.Transfer.Call(t.Context(), k, "alice", order, entity.Key("rent"))
				}
				if err != nil {
					t.Fatal(err)
				}
				k.Advance(time.Minute) // what was sent is delivered again, and bob recognizes it
				want(t, k, "alice", bank.Status{Open: true, Balance: 1000})
				want(t, k, "bob", bank.Status{Open: true, Balance: 9000})
			})
		}
	}
}
