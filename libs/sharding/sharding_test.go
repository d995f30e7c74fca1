package sharding_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// TestShardOfVectors checks the published vectors, which other languages check
// too: quoted id, number of shards, index.
func TestShardOfVectors(t *testing.T) {
	f, err := os.Open("testdata/shardof.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		id, err := strconv.Unquote(parts[0])
		shards, err2 := strconv.ParseUint(parts[1], 10, 32)
		want, err3 := strconv.ParseUint(parts[2], 10, 32)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got := shardingtest.ShardOf(sharding.EntityID(id), uint32(shards)); uint64(got) != want {
			t.Errorf("ShardOf(%q, %d) = %d, want %d", id, shards, got, want)
		}
		n++
	}
	if n < 10 {
		t.Fatalf("only %d vectors", n)
	}
}

// TestShardOfIsXXH64 pins the hash to the published values of xxHash.
func TestShardOfIsXXH64(t *testing.T) {
	for in, sum := range map[string]uint64{
		"": 0xef46db3751d8e999, "a": 0xd24ec4f1a98c6e5b, "abc": 0x44bc2cf5ad770999,
	} {
		for _, n := range []uint32{1, 7, 1024, 65536} {
			if got := shardingtest.ShardOf(sharding.EntityID(in), n); uint64(got) != sum%uint64(n) {
				t.Errorf("ShardOf(%q, %d) = %d, want %d", in, n, got, sum%uint64(n))
			}
		}
	}
}

func TestEpoch(t *testing.T) {
	e := sharding.MakeEpoch(7, 9)
	if e.Term() != 7 || e.Counter() != 9 || e.String() != "7.9" {
		t.Errorf("epoch %d: term %d counter %d %s", e, e.Term(), e.Counter(), e)
	}
	if sharding.MakeEpoch(2, 0) <= sharding.MakeEpoch(1, 1<<32-1) {
		t.Error("a higher term must be a higher epoch")
	}
}

func TestRowsAreOrderedByEpochThenPhase(t *testing.T) {
	rows := []sharding.Row{
		{}, {Epoch: 1, Phase: sharding.Starting}, {Epoch: 1, Phase: sharding.Serving},
		{Epoch: 1, Phase: sharding.HandingOff}, {Epoch: 2, Phase: sharding.Starting},
	}
	for i, a := range rows {
		for j, b := range rows {
			if a.Newer(b) != (i > j) {
				t.Errorf("row %d newer than row %d: %t", i, j, a.Newer(b))
			}
		}
	}
}

func TestCompareAddr(t *testing.T) {
	ordered := []string{"a:9", "a:80", "a:443", "b:1"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := sharding.CompareAddr(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("CompareAddr(%s, %s) = %d", a, b, got)
			}
		}
	}
	if sharding.CompareAddr("a:080", "a:80") != 0 {
		t.Error("ports are numbers")
	}
}

func TestNames(t *testing.T) {
	for s, ok := range map[string]bool{
		"Account": true, "roost.coordinator": true, "a-b_C9": true,
		"": false, "9a": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("a", sharding.MaxTypeLen+1): false,
	} {
		if err := sharding.CheckType("type", s); (err == nil) != ok || err != nil && !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("CheckType(%q): %v", s, err)
		}
	}
	for s, ok := range map[sharding.EntityType]bool{
		"Account": true, "roostx.A": true, "roost-A": true, "a.roost.b": true,
		"roost.coordinator": false, "roost.": false, "roost": false, "9": false, "": false,
		"Roost.Coordinator": false, "ROOST.x": false, "Roost": false,
	} {
		if err := sharding.CheckEntityType("type", s); (err == nil) != ok || err != nil && !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("CheckEntityType(%q): %v", s, err)
		}
	}
	for s, ok := range map[string]bool{
		"prod": true, "Prod-2.eu_west": true, strings.Repeat("a", sharding.MaxClusterLen): true,
		"": false, "my shop": false, "2": false, "ü": false, "a/b": false, "a\x00": false, strings.Repeat("a", sharding.MaxClusterLen+1): false,
	} {
		if err := sharding.CheckCluster("cluster.name", s); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "cluster.name") {
			t.Errorf("CheckCluster(%q): %v", s, err)
		}
	}
	for s, ok := range map[string]bool{
		"alice": true, "a/b c": true, "日本": true, strings.Repeat("a", sharding.MaxIDLen): true,
		"": false, "a\x00b": false, "a\nb": false, "\xff": false, strings.Repeat("a", sharding.MaxIDLen+1): false,
	} {
		if err := sharding.CheckID("id", s, sharding.MaxIDLen); (err == nil) != ok || err != nil && !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("CheckID(%q): %v", s, err)
		}
	}
}

func TestCommandHashTellsCommandsApart(t *testing.T) {
	seen := map[sharding.Hash]string{}
	for _, who := range []string{"", "A", "alice"} {
		for _, c := range []string{"Add", "Ad"} {
			for _, p := range []string{"", "d", "1"} {
				h := sharding.CommandHash(who, c, []byte(p))
				if other, ok := seen[h]; ok {
					t.Errorf("%s(%s) of %q has the hash of %s", c, p, who, other)
				}
				seen[h] = fmt.Sprintf("%s(%s) of %q", c, p, who)
			}
		}
	}
	env := sharding.Envelope{Principal: "alice", Command: "Add", Payload: []byte("d")}
	if got := env.Hash(); got != sharding.CommandHash("alice", "Add", []byte("d")) {
		t.Errorf("the hash of %+v is %x", env, got)
	}
}

// TestCommandHashIsFixed: hashes are stored, so another formula would refuse every
// repeated key.
func TestCommandHashIsFixed(t *testing.T) {
	for _, tt := range []struct {
		principal, command, payload string
		want                        string // printf 'alice\0Add\0{"delta":1}' | sha256sum | cut -c1-32
	}{
		{"", "Add", `{"delta":1}`, "a4ac5247f9e8983b26f46ed51fb2906d"},
		{"alice", "Add", `{"delta":1}`, "a9627c69aed853242e87189c8b659049"},
		{strings.Repeat("a", 300), "Add", `{"delta":1}`, "ea2b7a70ce3e76d15cbe1b19a270b3c2"},
	} {
		if got := sharding.CommandHash(tt.principal, tt.command, []byte(tt.payload)); hex.EncodeToString(got[:]) != tt.want {
			t.Errorf("the hash of %+v is %x", tt, got)
		}
	}
}

// TestCommandHashIsNotForged: a command of mally was made to have the xxh64 of the command that
// alice is about to send. A hash that allows it would give alice's key to mally.
func TestCommandHashIsNotForged(t *testing.T) {
	payload := []byte(`{"note":"once upon a time, two","delta":1000000000000}`)
	forged := []byte("{\"note\":\"once upon a t\xfd\x05x4T\x92\x95w\",\"delta\":1000000000000}")
	if xxhash.Sum64String("alice\x00Add\x00"+string(payload)) != xxhash.Sum64String("mally\x00Add\x00"+string(forged)) {
		t.Fatal("the commands do not have the same xxh64: the test proves nothing")
	}
	if sharding.CommandHash("alice", "Add", payload) == sharding.CommandHash("mally", "Add", forged) {
		t.Error("a forged command has the hash of another principal's")
	}
	var h sharding.Hash
	if 8*len(h) < 128 {
		t.Errorf("the hash has %d bits", 8*len(h))
	}
}

// TestCheckOfCommands: a command is allowed only if all its names are.
func TestCheckOfCommands(t *testing.T) {
	for what, e := range shardingtest.BadNames() {
		if err := e.Check(); !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, e := range map[string]sharding.Envelope{
		"with a key":                {Keyed: true, ID: "k"},
		"with an id of Roost's own": {ID: sharding.ReservedPrefix + "1"},
		"without an id":             {},
		"with a principal":          {Principal: "spiffe://example.org/grüße"},
	} {
		e.Entity, e.Command = sharding.Entity{Type: "T", ID: "grüße/🐔"}, "Do"
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, principal := range []string{"a\x00", "a\xff", strings.Repeat("a", sharding.MaxPrincipalLen+1)} {
		e := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, Command: "Do", Principal: principal}
		if err := e.Check(); !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("principal %q: %v", principal, err)
		}
	}
	e := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, Command: "Do", Keyed: true}
	if err := e.Check(); !errors.Is(err, sharding.ErrBadName) {
		t.Errorf("an empty key: %v", err)
	}
}

// TestCheckText: names for people are those that people see.
func TestCheckText(t *testing.T) {
	for text, ok := range map[string]bool{
		"v1.2": true, "größer 東京": true, "": false, "a\u202eb": false, "a\u200bb": false, "a\u0085b": false, "a\u2028b": false, "\ufeffa": false, "a\xff": false, "a\nb": false,
	} {
		if err := sharding.CheckText("app.version", text, 64); (err == nil) != ok || err != nil && (!errors.Is(err, sharding.ErrBadName) || !strings.Contains(err.Error(), "app.version")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
