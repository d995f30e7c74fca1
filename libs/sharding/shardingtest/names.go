// Package shardingtest has invalid commands. Every component that receives commands from
// untrusted senders must refuse them.
//
// # What this does not do
//
// It defines the refused commands, not the refusals: each such component has a test of its own.
package shardingtest

import (
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// BadNames returns commands with a key, each with one name that is not allowed, by what
// is wrong with it.
func BadNames() map[string]sharding.Envelope {
	bad := map[string]sharding.Envelope{}
	for what, s := range map[string]string{
		"empty": "", "too long": strings.Repeat("a", sharding.MaxTypeLen+1), "digit first": "9a", "slash": "a/b", "space": "a b",
		"not ASCII": "ä", "control character": "a\x00", "dot": ".",
	} {
		e := good()
		e.Entity.Type = sharding.EntityType(s)
		bad["type: "+what] = e
		e = good()
		e.Command = s
		bad["command: "+what] = e
	}
	for what, s := range map[string]sharding.EntityType{
		"reserved": "roost", "of the coordinators": "roost.coordinator", "reserved, in upper case": "ROOST.x",
	} {
		e := good()
		e.Entity.Type = s
		bad["type: "+what] = e
	}
	for what, s := range map[string]string{
		"too long": strings.Repeat("a", max(sharding.MaxIDLen, sharding.MaxCommandIDLen)+1), "control character": "a\nb", "DEL": "a\x7f", "not UTF-8": "a\xff",
	} {
		e := good()
		e.Entity.ID = sharding.EntityID(s)
		bad["id: "+what] = e
		e = good()
		e.ID = sharding.CommandID(s)
		bad["key: "+what] = e
	}
	e := good()
	e.Entity.ID = ""
	bad["id: empty"] = e
	e = good()
	e.ID = sharding.ReservedPrefix + "mine"
	bad["key: reserved"] = e
	return bad
}

func good() sharding.Envelope {
	return sharding.Envelope{Entity: sharding.Entity{Type: "Echo", ID: "a"}, Command: "Do", ID: "k", Keyed: true}
}
