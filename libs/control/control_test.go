package control_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
)

// TestKindsAreComplete: every type that is a message is a kind, or the answer to one,
// has the name of its type, and is about a shard if it names one.
func TestKindsAreComplete(t *testing.T) {
	listed := map[string]control.Message{}
	for _, k := range control.Kinds {
		for _, m := range append([]control.Message{k.Zero}, k.Answers...) {
			listed[control.Name(m)] = m
		}
	}
	var names []string
	file, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "name" {
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	for _, name := range names {
		if listed[name] == nil {
			t.Errorf("%s is in no kind of Kinds", name)
		}
	}
	for name, m := range listed {
		if !slices.Contains(names, name) || reflect.TypeOf(m).Name() != name {
			t.Errorf("%T is called %s", m, name)
		}
	}
}

// TestOneWayMessages: they can be compared, so that one that waits already is not added
// again, and every message of a coordinator has a term.
func TestOneWayMessages(t *testing.T) {
	for _, k := range control.Kinds {
		if k.Answers == nil && !reflect.TypeOf(k.Zero).Comparable() {
			t.Errorf("%T cannot be compared", k.Zero)
		}
	}
}

// TestChecks: each role takes its one-way messages, its calls and their answers, and
// nothing else.
func TestChecks(t *testing.T) {
	roles := []control.Role{control.Coordinator, control.Region, control.Gateway}
	var all []control.Message
	for _, k := range control.Kinds {
		all = append(append(all, k.Zero), k.Answers...)
	}
	for _, k := range control.Kinds {
		if control.IsCall(k.Zero) != (k.Answers != nil) {
			t.Errorf("%T: a call %t", k.Zero, control.IsCall(k.Zero))
		}
		for _, to := range roles {
			if ok := control.CheckOneWay(to, k.Zero) == nil; ok != (k.To&to != 0 && k.Answers == nil) {
				t.Errorf("%T one way to %v: %t", k.Zero, to, ok)
			}
			from := k.From
			if _, is := k.Zero.(control.HostShard); is { // with Released it is a region's
				from = control.Coordinator
			}
			if ok := control.CheckSender(control.Identity{Roles: to}, control.Identity{}, k.Zero) == nil; ok != (from&to != 0) {
				t.Errorf("%T of %v: %t", k.Zero, to, ok)
			}
			if ok := control.CheckCall(to, k.Zero) == nil; ok != (k.To&to != 0 && k.Answers != nil) {
				t.Errorf("a call %T of %v: %t", k.Zero, to, ok)
			}
		}
		for _, a := range all {
			answers := slices.ContainsFunc(k.Answers, func(b control.Message) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) })
			if ok := control.CheckAnswer(k.Zero, a) == nil; ok != answers {
				t.Errorf("%T answers %T: %t", a, k.Zero, ok)
			}
		}
	}
	for _, k := range control.Kinds {
		for _, a := range k.Answers {
			for _, to := range roles {
				if control.CheckOneWay(to, a) == nil || control.CheckCall(to, a) == nil {
					t.Errorf("the answer %T is sent to %v", a, to)
				}
			}
		}
	}
	if control.CheckOneWay(control.Region, nil) == nil || control.CheckCall(control.Region, nil) == nil || control.CheckAnswer(control.Register{}, nil) == nil || control.CheckSender(control.Identity{Roles: control.Region}, control.Identity{}, nil) == nil {
		t.Error("no message is taken for one")
	}
}
