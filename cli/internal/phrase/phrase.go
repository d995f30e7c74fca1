// Package phrase has the words for what several commands show: names, times, sizes, members, freezes and unreadable shards.
//
// It prints nothing, and asks no cluster.
package phrase

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Plural returns a count with its noun.
func Plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ty"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OrDash returns a text, or - if it is empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// mostNamed is the number of characters of a name that a table shows at most; JSON has all.
const mostNamed = 64

// Named is quoted, and a long name does not make all rows of a table wide.
func Named(name string) string {
	name = Quoted(name)
	if r := []rune(name); len(r) > mostNamed {
		const last = 20
		name = string(r[:mostNamed-last-1]) + "…" + string(r[len(r)-last:])
	}
	return name
}

// Quoted makes a name that users have chosen fit to be shown: it cannot break out of its cell, or make a row that does
// not exist. A name that is not in Unicode's normal form C is shown with escapes. Names are bytes, so it is another one
// than the name that looks the same.
func Quoted(name string) string {
	switch {
	case !norm.NFC.IsNormalString(name):
		return strconv.QuoteToASCII(name)
	case name != Printable(name), strings.HasPrefix(name, `"`), strings.Contains(name, "  "), strings.TrimSpace(name) != name:
		return strconv.Quote(name)
	}
	return name
}

// Printable makes a text from elsewhere fit to be shown in a line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// MostShown bounds the part of an error that a table shows, in bytes: the references and versions that
// errors of regions end with are within it. JSON has all that is known.
const MostShown = 400

// OneLine makes a text from elsewhere fit to be shown in a table.
func OneLine(text string) string {
	text = Printable(text)
	if len(text) > MostShown {
		text = strings.ToValidUTF8(text[:MostShown], "") + "…"
	}
	return text
}

// Moment writes a moment for people, in the form that flags take.
func Moment(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

// Since writes since when something is so; "-" if that is not known.
func Since(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return Moment(ms)
}

// Until describes the end of a freeze; 0: it has none.
func Until(ms int64) string {
	if ms == 0 {
		return ", until roost placement freeze --undo"
	}
	return ", until " + Moment(ms)
}

// TimeOf writes a time in Unix milliseconds for people.
func TimeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// Attribution names who requested something, when, and why.
func Attribution(by, reason string, since int64) string {
	text := OrDash(by) + ", " + Since(since)
	if reason != "" {
		text += ": " + reason
	}
	return Printable(text)
}

// Freeze describes a freeze.
func Freeze(f *adminv1.Freeze) string {
	return "frozen: no shard moves unless it has to" + Until(f.UntilUnixMs) + "; " + Attribution(f.By, f.Reason, f.SinceUnixMs)
}

// Brake describes why moves are held back because commands are slow.
func Brake(b *adminv1.Brake) string {
	text := "braked since " + Moment(b.SinceUnixMs) + ": " + b.Why
	if b.NextUnixMs > 0 {
		text += "; one is tried at " + Moment(b.NextUnixMs)
	}
	return text
}

// Unreadable describes shards that no region can read: what is missing, and what to do.
func Unreadable(u *adminv1.Unreadable) string {
	text := fmt.Sprintf("%s: %s unreadable (%s): ", u.Type, Plural(len(u.Shards), "shard"), SomeOf(u.Shards))
	if u.Region == "" {
		return text + "no registered region can read their stored data; start a region of the version that stored it"
	}
	text += Missing(u) + ": commands are refused until then"
	if !u.Looked {
		text += ". If the region that had them crashed, roost rollout look finds out the stored forms"
	}
	return text
}

// Missing describes what the region that lacks the fewest forms cannot read, and what to do.
func Missing(u *adminv1.Unreadable) string {
	region := u.Region
	if u.Version != "" {
		region += " (version " + u.Version + ")"
	}
	stored := "may be stored"
	if u.Looked {
		stored = "is stored"
	}
	start := "a version that does"
	if len(u.By) > 0 {
		by := slices.Clone(u.By)
		for i := range by {
			if by[i] == u.Version { // two builds with one name
				by[i] = "another build of " + by[i]
			}
		}
		start = strings.Join(by, " or ") + ", or of another version that does"
	}
	return fmt.Sprintf("%s does not read %s, which %s. Start a region of %s", region, strings.Join(u.Forms, "; "), stored, start)
}

// SomeOf lists the first of some numbers.
func SomeOf(numbers []uint32) string {
	const most = 8
	text := ""
	for i, n := range numbers[:min(len(numbers), most)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	if len(numbers) > most {
		text += ", …"
	}
	return text
}

// IsRegion reports whether a member is a region.
func IsRegion(m *adminv1.Member) bool {
	for _, role := range m.Roles {
		if role == "region" {
			return true
		}
	}
	return false
}

// MemberState returns a member's state in the terms of an operator.
func MemberState(m *adminv1.Member) string {
	state := m.Status
	if m.Active {
		state += ", active"
	}
	if m.Draining {
		state += ", draining"
	}
	if m.Cordoned {
		state += ", cordoned"
	}
	if !m.Reachable {
		state += ", unreachable"
	}
	return state
}

// PerSecond writes a rate.
func PerSecond(rate float64) string { return fmt.Sprintf("%.1f/s", rate) }

// Percent is a part of one processor.
func Percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }

// Mebibytes formats the memory of entities, where only large sizes matter; "-": no entity reports its size.
func Mebibytes(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
