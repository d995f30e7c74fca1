package sharding_test

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestReadBuiltin: the input of a built-in command says one thing, or is refused.
func TestReadBuiltin(t *testing.T) {
	for payload, want := range map[string]string{
		`{"name":"pay"}`:                    "",
		` {"name" : "\ufffd\ud83d\ude00"} `: "",
		`{"name":"pay","name":"ship"}`:      `field "name" is there twice`,
		`{"name":"pay","n\u0061me":"x"}`:    `field "name" is there twice`,
		`{"Name":"pay"}`:                    `there is no field "Name"`,
		`{"name":"pay","NAME":"x"}`:         `there is no field "NAME"`,
		`{"name":"pay","why":"x"}`:          `unknown field "why"`,
		`{"name":"\ud800"}`:                 `field "name" has half of a surrogate pair`,
		`{"name":"\ufffd\ud800"}`:           `field "name" has half of a surrogate pair`,
		`{"name":"\udc00\ud800"}`:           `field "name" has half of a surrogate pair`,
		`{"name":"\ud800\\udc00"}`:          `field "name" has half of a surrogate pair`,
		`{"name":"\\ud800"}`:                "",
		"{\"name\":\"\xff\"}":               "not in UTF-8",
		`{"name":"pay"} {}`:                 "more after the value",
		``:                                  "it is empty",
	} {
		var in sharding.ReminderDropInput
		err := sharding.ReadBuiltin([]byte(payload), &in)
		if want == "" && (err != nil || in.Name == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", payload, err, want)
		}
	}
}
