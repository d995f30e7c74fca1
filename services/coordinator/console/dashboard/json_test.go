package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestJSONIsShownAsItIs: payloads and states are shown digit by digit: no number goes through a double, and no key is
// lost. It needs Node.js.
func TestJSONIsShownAsItIs(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no Node.js here (Debian: nodejs)")
	}
	dir := t.TempDir()
	module, err := static.ReadFile("static/json.js")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "json.mjs"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(expression string) (out string) {
		t.Helper()
		b, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", fmt.Sprintf(
			`import { indentJSON, utf8, whole } from %q; process.stdout.write(String(%s))`, filepath.Join(dir, "json.mjs"), expression)).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", expression, err, b)
		}
		return string(b)
	}
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	const written = `{ "n":9007199254740993,"one" : 1.0,"big":1e400, "a":1,"a":2,"s":"x \"{[,:]}\" \ud83d\ude00 y","list":[1, [ ],{ }] ,"no":null}`
	for indent, want := range map[int]string{
		0: `{"n":9007199254740993,"one":1.0,"big":1e400,"a":1,"a":2,"s":"x \"{[,:]}\" \ud83d\ude00 y","list":[1,[],{}],"no":null}`,
		2: `{
  "n": 9007199254740993,
  "one": 1.0,
  "big": 1e400,
  "a": 1,
  "a": 2,
  "s": "x \"{[,:]}\" \ud83d\ude00 y",
  "list": [
    1,
    [],
    {}
  ],
  "no": null
}`,
	} {
		if got := run(fmt.Sprintf("indentJSON(%s, %d)", quote(written), indent)); got != want {
			t.Errorf("with an indent of %d:\n%s\nwant\n%s", indent, got, want)
		}
	}
	for expression, want := range map[string]string{
		`whole("9007199254740993")`:                "9,007,199,254,740,993",
		`whole(1234)`:                              "1,234",
		`whole(undefined)`:                         "0",
		`utf8(new Uint8Array([0xef, 0xbb, 0xbf]))`: "\ufeff",
		`utf8(new Uint8Array([0x61, 0xff]))`:       "null",
	} {
		if got := run(expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}
