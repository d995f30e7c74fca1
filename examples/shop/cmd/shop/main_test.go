package main

import (
	"bytes"
	"strings"
	"testing"

	shopv1 "github.com/roost-cluster/roost/examples/shop/v1"
	shopv2 "github.com/roost-cluster/roost/examples/shop/v2"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// TestShopping: the command lines work with both versions of the entities, and finish what
// was begun.
func TestShopping(t *testing.T) {
	for version, types := range map[string][]entity.Definition{"v1": {shopv1.Carts, shopv1.Stocks}, "v2": {shopv2.Carts, shopv2.Stocks}} {
		t.Run(version, func(t *testing.T) {
			k := entitytest.New(t, types...)
			for _, step := range []struct{ line, prints, fails string }{
				{line: "receive tea 10", prints: "10 tea in stock"},
				{line: "buy anna tea 2 450", prints: "2 tea, 9.00 in all"},
				{line: "buy anna tea 2 450", prints: "2 tea, 9.00 in all"}, // with the same key
				{line: "stock tea", prints: "8 tea in stock"},
				{line: "cart anna", prints: "2 tea, 9.00 in all"},
				{line: "cart ben", prints: "0.00 in all"},
				{line: "buy ben cup 1 1200", fails: "1 are wanted, and 0 are in stock"},
				{line: "buy ben cup", fails: "wrong usage"},
				{line: "buy ben cup one 1200", fails: "wrong usage"},
				{line: "steal tea", fails: "wrong usage"},
				{line: "", fails: "wrong usage"},
			} {
				got, err := do(t.Context(), k, strings.Fields(step.line), []entity.CallOption{entity.Key("order: " + step.line)})
				if step.fails == "" && (err != nil || got != step.prints) || step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails)) {
					t.Errorf("shop %s: %q, %v", step.line, got, err)
				}
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "usage: shop"},
		{[]string{"-nonsense"}, 2, "usage: shop"},
		{[]string{"-gateway", "localhost", "stock", "tea"}, 2, "is not a base URL"},
		{[]string{"stock"}, 2, "see shop -h"},
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), tc.args, &out, &errOut); code != tc.code || !strings.Contains(errOut.String(), tc.says) || out.Len() > 0 {
			t.Errorf("shop %q: exit code %d\n%s%s", tc.args, code, &out, &errOut)
		}
	}
}
