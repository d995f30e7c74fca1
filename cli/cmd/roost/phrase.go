package main

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

// plural returns a count with its noun.
func plural(n int, noun string) string {
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

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// mostNamed is how many characters of a name a table shows; JSON has all.
const mostNamed = 64

// named is quoted, and a long name does not make all rows of a table wide.
func named(name string) string {
	name = quoted(name)
	if r := []rune(name); len(r) > mostNamed {
		const last = 20
		name = string(r[:mostNamed-last-1]) + "…" + string(r[len(r)-last:])
	}
	return name
}

// quoted makes a name that users have chosen fit to be shown: it cannot break out of its cell, or make a row that does
// not exist. A name that is not in Unicode's normal form C is shown with escapes. Names are bytes, so it is another one
// than the name that looks the same.
func quoted(name string) string {
	switch {
	case !norm.NFC.IsNormalString(name):
		return strconv.QuoteToASCII(name)
	case name != printable(name), strings.HasPrefix(name, `"`), strings.Contains(name, "  "), strings.TrimSpace(name) != name:
		return strconv.Quote(name)
	}
	return name
}

// printable makes a text from elsewhere fit to be shown in a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// mostShown is how much of an error a table shows, in bytes: the references and versions that
// errors of regions end with are within it. JSON has all that is known.
const mostShown = 400

// oneLine makes a text from elsewhere fit to be shown in a table.
func oneLine(text string) string {
	text = printable(text)
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	return text
}

// momentText writes a moment for people, in the form that flags take.
func momentText(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

// sinceText writes since when something is so; "-" if that is not known.
func sinceText(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return momentText(ms)
}

func untilText(ms int64) string {
	if ms == 0 {
		return ", until roost thaw"
	}
	return ", until " + momentText(ms)
}

// timeOf writes a time in Unix milliseconds for people.
func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// attribution says who asked for something, when, and why.
func attribution(by, reason string, since int64) string {
	text := orDash(by) + ", " + sinceText(since)
	if reason != "" {
		text += ": " + reason
	}
	return printable(text)
}

func describeFreeze(f *adminv1.Freeze) string {
	return "frozen: no shard moves unless it has to" + untilText(f.UntilUnixMs) + "; " + attribution(f.By, f.Reason, f.SinceUnixMs)
}

func describeBrake(b *adminv1.Brake) string {
	text := "braked since " + momentText(b.SinceUnixMs) + ": " + b.Why
	if b.NextUnixMs > 0 {
		text += "; one is tried at " + momentText(b.NextUnixMs)
	}
	return text
}

// describeUnreadable says of shards that no region reads what is missing, and what to do.
func describeUnreadable(u *adminv1.Unreadable) string {
	text := fmt.Sprintf("%s: %s unreadable (%s): ", u.Type, plural(len(u.Shards), "shard"), someOf(u.Shards))
	if u.Region == "" {
		return text + "no region is here that could read what is stored of them; start one of the version that stored it"
	}
	text += missing(u) + ": commands are refused until then"
	if !u.Looked {
		text += ". If the region that had them crashed, roost rollout look finds out what is stored"
	}
	return text
}

// missing says what the region that lacks the fewest forms does not read, and what to do.
func missing(u *adminv1.Unreadable) string {
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

// someOf lists the first of some numbers.
func someOf(numbers []uint32) string {
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

func isRegion(m *adminv1.Member) bool {
	for _, role := range m.Roles {
		if role == "region" {
			return true
		}
	}
	return false
}

// memberState returns a member's state in the terms of an operator.
func memberState(m *adminv1.Member) string {
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

func perSecond(rate float64) string { return fmt.Sprintf("%.1f/s", rate) }

// percent is a part of one processor.
func percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }

// mebibytes is the memory of entities, of which only large sizes matter; "-": there are none that tell theirs.
func mebibytes(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
