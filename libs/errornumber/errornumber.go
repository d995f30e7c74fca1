// Package errornumber has the stable numbers of the errors that Roost itself answers with, and what
// each of them means. Clients find the number in meta.error of an answer. An entity's own
// answers have none.
//
// Services take their numbers from here, and so does who recognizes one: the Go client, and the command
// roost errors. docs/using/errors.md is written from [All] by make errors.
//
// A number keeps its meaning forever: a new meaning gets a new number, and the number of one that is gone is not
// used again. The numbers from 1001 on are of commands that were definitely not applied, or have another known
// outcome. Those from 1101 on are of commands whose outcome is unknown.
//
// # What this does not do
//
// It does not decide which number an answer gets: gateways, package node and package bounded do.
package errornumber

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Number is the stable number of an error, such as "ROOST-1014".
type Number string

// Prefix begins all numbers.
const Prefix = "ROOST-"

// Repeat reports whether sending the same command again helps.
type Repeat string

// Whether a repeat helps.
const (
	Useless   Repeat = "no"           // the answer stays the same until something was changed
	Later     Repeat = "yes"          // after Retry-After, if the answer has it
	WithKey   Repeat = "with its key" // only under the same idempotency key
	IfAborted Repeat = "if aborted"   // if the code is aborted, otherwise not
)

// Meaning describes an outcome, as it is in meta.outcome of an answer.
func Meaning(o sharding.Outcome) string {
	switch o {
	case sharding.Executed:
		return "the command ran"
	case sharding.NotApplied:
		return "the command was definitely not applied"
	}
	return "the command may or may not have been applied"
}

// Text returns the meaning of the value.
func (r Repeat) Text() string {
	switch r {
	case Useless:
		return "the answer stays the same until something is changed"
	case Later:
		return "send it again, after Retry-After if the answer has it"
	case WithKey:
		return "send it again under the idempotency key of the first attempt only"
	}
	return "send it again if the code is aborted; for other codes the answer stays the same"
}

// Answer is a code of Twirp with the HTTP status that it comes with.
type Answer struct {
	Code   string `json:"code"`
	Status int    `json:"status"`
}

// Entry says all about a number.
type Entry struct {
	Number Number `json:"number"`
	// Answers are the codes that the number comes with; none: any.
	Answers []Answer         `json:"answers"`
	Outcome sharding.Outcome `json:"outcome"`
	Repeat  Repeat           `json:"repeat"`
	// Meaning is one line, for lists.
	Meaning string `json:"meaning"`
	// Causes and Action are sentences.
	Causes string `json:"causes"`
	Action string `json:"action"`
}

// Comes reports whether the number may come with a code and an HTTP status.
func (e *Entry) Comes(code string, status int) bool {
	return len(e.Answers) == 0 || slices.Contains(e.Answers, Answer{code, status})
}

// Codes returns the codes of the answers, "any other" if there is no list of them.
func (e *Entry) Codes() string {
	var codes []string
	for _, a := range e.Answers {
		if !slices.Contains(codes, a.Code) {
			codes = append(codes, a.Code)
		}
	}
	if codes == nil {
		return "any other"
	}
	return strings.Join(codes, ", ")
}

// Statuses returns the HTTP statuses of the answers, "by code" if there is no list of them.
func (e *Entry) Statuses() string {
	var statuses []string
	for _, a := range e.Answers {
		if s := strconv.Itoa(a.Status); !slices.Contains(statuses, s) {
			statuses = append(statuses, s)
		}
	}
	if statuses == nil {
		return "by code"
	}
	return strings.Join(statuses, ", ")
}

// All returns the entries of all numbers, in the order of the numbers.
func All() []Entry { return slices.Clone(entries) }

// Find returns the entry of a number, and reports whether there is one.
func Find(n Number) (Entry, bool) {
	for i := range entries {
		if entries[i].Number == n {
			return entries[i], true
		}
	}
	return Entry{}, false
}

// Ranges returns which numbers there are, such as "ROOST-1001 to ROOST-1019".
func Ranges() string {
	var parts []string
	for i := 0; i < len(entries); {
		last := i
		for last+1 < len(entries) && digits(last+1) == digits(last)+1 {
			last++
		}
		part := string(entries[i].Number)
		if last > i {
			part = fmt.Sprintf("%s to %s", part, entries[last].Number)
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}

// digits returns the number of an entry without its prefix.
func digits(i int) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(entries[i].Number), Prefix)) // a test sees that all are numbers
	return n
}
