package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// moved has every command of the time when the top level had 46 of them, with what does the same now.
var moved = [][2]string{
	{"dev", "dev"}, {"dev ps", "dev ps"}, {"dev kill", "dev kill"}, {"dev stop", "dev stop"}, {"dev start", "dev start"},
	{"new region", "new region"},
	{"call", "call"},
	{"errors", "errors"},
	{"version", "--version"},

	{"members", "cluster status"},
	{"doctor", "cluster doctor"},
	{"top", "cluster top"},
	{"slow", "cluster slow"},
	{"dashboard", "cluster dashboard"},
	{"lease show", "cluster lease"},
	{"discovery ls", "cluster discovery"},
	{"discovery watch", "cluster discovery --watch"},
	{"discovery test", "cluster discovery --test"},
	{"events", "cluster events"},
	{"join", "cluster join"},
	{"leave", "cluster leave"},
	{"down", "cluster down"},
	{"remove", "cluster down --force"},

	{"regions", "region ls"},
	{"regions --region", "region show"},
	{"drain", "region drain"},
	{"drain --resume", "region drain --undo"},
	{"cordon", "region cordon"},
	{"uncordon", "region cordon --undo"},

	{"shards", "shard ls"},
	{"where", "shard show"},
	{"why", "shard show"},
	{"move", "shard move"},
	{"pin", "shard pin"},
	{"unpin", "shard pin --undo"},

	{"entities", "entity ls"},
	{"entity show", "entity show"},
	{"explain", "entity explain"},
	{"entity delete", "entity delete"},
	{"quarantine list", "entity quarantine"},
	{"quarantine add", "entity quarantine"},
	{"quarantine release", "entity quarantine --undo"},
	{"reminders", "entity reminders"},
	{"reminders drop", "entity reminders drop"},
	{"remembered", "entity remembered"},
	{"sends", "entity sends"},
	{"sends again", "entity sends again"},
	{"sends drop", "entity sends drop"},
	{"sends retry", "entity sends retry"},

	{"steering", "placement status"},
	{"plan", "placement plan"},
	{"freeze", "placement freeze"},
	{"thaw", "placement freeze --undo"},

	{"rollout", "rollout status"},
	{"rollout target", "rollout target"},
	{"rollout look", "rollout look"},

	{"journal check", "journal check"},
	{"journal upgrade", "journal upgrade"},
	{"journal activate", "journal upgrade --finalize"},
	{"backup", "journal backup"},
	{"backup check", "journal backup check"},
	{"restore", "journal restore"},
	{"repair facts", "journal repair facts"},
	{"repair find", "journal repair find"},
	{"repair record", "journal repair record"},
	{"repair snapshot", "journal repair snapshot"},
	{"repair list", "journal repair ls"},
	{"snapshot drop", "journal snapshot drop"},

	{"key new", "auth key new"},
	{"cert authority", "auth cert authority"},
	{"cert new", "auth cert new"},
}

// groupNames are the commands of the top level.
var groupNames = []string{"auth", "call", "cluster", "dev", "entity", "errors", "journal", "new", "placement", "region", "rollout", "shard"}

// commandsOf returns all commands below root by their names, without the ones that cobra adds.
func commandsOf(root *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Name() == "help" || c.Name() == "completion" {
				continue
			}
			all[strings.TrimPrefix(c.CommandPath(), "roost ")] = c
			walk(c)
		}
	}
	walk(root)
	return all
}

// TestCommands: the top level has the groups and nothing else, nothing was lost when the commands moved there, and no command
// was added that the table does not have.
func TestCommands(t *testing.T) {
	var started bool
	all := commandsOf(rootCommand(&app.App{}, &started))
	top, known := map[string]bool{}, map[string]bool{}
	for name := range all { // order-free: a set
		top[strings.Fields(name)[0]] = true
	}
	if got := slices.Sorted(maps.Keys(top)); !slices.Equal(got, groupNames) {
		t.Errorf("the top level has %v, want %v", got, groupNames)
	}
	for _, m := range moved {
		words := strings.Fields(m[1])
		flag := ""
		if last := words[len(words)-1]; strings.HasPrefix(last, "--") {
			words, flag = words[:len(words)-1], strings.TrimPrefix(last, "--")
		}
		name := strings.Join(words, " ")
		if code, out, errOut := roost(t, append(words, "--help")...); code != app.ExitOK || !strings.Contains(out, "\nUsage:\n  roost "+strings.Join(words, " ")) {
			t.Errorf("%s is now %s, and its help is %d %s%s", m[0], m[1], code, out, errOut)
		} else if flag != "" && !strings.Contains(out, "--"+flag+" ") {
			t.Errorf("%s is now %s, and has no flag --%s", m[0], name, flag)
		}
		known[name] = true
		if old := strings.Fields(m[0]); !slices.Contains(groupNames, old[0]) {
			if code, _, errOut := roost(t, old[0]); code != app.ExitUsage || !strings.Contains(errOut, `unknown command "`+old[0]+`" for "roost"`) {
				t.Errorf("roost %s: exit code %d, %s", old[0], code, errOut)
			}
		}
	}
	for name, cmd := range all { // order-free: independent findings
		if !known[name] && !cmd.HasSubCommands() {
			t.Errorf("%s is not in the table of commands", name)
		}
	}
}

// verbs begin the short texts of commands.
var verbs = []string{
	"Back", "Check", "Declare", "Delete", "Drop", "Explain", "Freeze", "Inspect", "Kill", "List", "Make", "Move", "Pin", "Plan", "Print", "Read", "Remove", "Repair",
	"Restore", "Retry", "Scaffold", "Send", "Set", "Show", "Start", "Stop", "Upgrade",
}

// TestShortTexts: the short text of a command is an imperative verb and its object, in at most eight words.
func TestShortTexts(t *testing.T) {
	var started bool
	root := rootCommand(&app.App{}, &started)
	all := commandsOf(root)
	all["roost"] = root
	for name, cmd := range all { // order-free: independent findings
		words := strings.Fields(cmd.Short)
		switch {
		case len(words) < 2 || len(words) > 8:
			t.Errorf("%s: %q has %d words", name, cmd.Short, len(words))
		case !slices.Contains(verbs, strings.TrimSuffix(words[0], ",")):
			t.Errorf("%s: %q begins with no verb of the list", name, cmd.Short)
		case !unicode.IsLetter(rune(cmd.Short[len(cmd.Short)-1])):
			t.Errorf("%s: %q ends with a mark", name, cmd.Short)
		}
	}
}
