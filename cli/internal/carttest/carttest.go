// Package carttest stores a cart for the tests of commands that work on journals, and damages it.
package carttest

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Store makes a journal with a cart of four records.
func Store(t *testing.T, url string) {
	t.Helper()
	d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	desc := sharding.TypeDesc{Type: "Cart", Shards: 4}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{desc}}); err != nil {
		t.Fatal(err)
	}
	cart := sharding.Entity{Type: "Cart", ID: "dora"}
	shard, epoch := desc.ShardOf(cart.ID), sharding.MakeEpoch(3, 1)
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: 5}}}
	for seq := uint64(1); seq <= 4; seq++ {
		r := sharding.Record{Seq: seq, Command: sharding.CommandID(fmt.Sprint("k", seq)), Events: []sharding.Event{{Name: "item-added", Encoding: sharding.JSON, Payload: []byte(`{"sku":"tea"}`)}}}
		if seq == 2 {
			r.Wakes = []sharding.Wake{{Kind: sharding.ReminderWake, Name: "pay", Due: 1 << 50, Input: sharding.Input{Command: "Pay"}}}
		}
		ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: cart, Records: []sharding.Record{r}}})
	}
	for _, op := range ops {
		if results, err := d.Commit(t.Context(), []journal.Op{op}); err != nil || results[0].Verdict != sharding.Durable {
			t.Fatal(results, err)
		}
	}
}

// Damage changes a byte of record 3.
func Damage(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?vfs="+sqlite.VFS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE record SET body = CAST(substr(body, 1, length(body) - 3) || CASE substr(body, length(body) - 2, 1) WHEN x'00' THEN x'ff' ELSE x'00' END || substr(body, length(body) - 1) AS BLOB) WHERE seq = 3"); err != nil {
		t.Fatal(err)
	}
}
