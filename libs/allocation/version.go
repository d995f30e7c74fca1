package allocation

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version orders the versions of a user's application, so that new shards go
// to the newer one during a rolling update. The zero value is "0.0.0".
type Version struct {
	numbers   [4]uint32 // major, minor, patch, commits since
	qualifier string
}

// ParseVersion parses up to three numbers (missing ones are 0), a number of commits since
// ("1.0.10+3-1234abcd"), and a qualifier ("1.2.0-M1"). Text without dots that is not a
// number is a qualifier only ("HEAD"). The empty text is the zero Version. Errors wrap
// ErrConfig.
func ParseVersion(s string) (Version, error) {
	var v Version
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return v, fmt.Errorf("%w: app version %q has more than three numbers", ErrConfig, s)
	}
	if len(parts) == 1 {
		n, ok := number(s)
		v.numbers[0] = n
		if !ok {
			v.qualifier = s
		}
		return v, nil
	}
	last := parts[len(parts)-1]
	if i := strings.IndexAny(last, "+-"); i >= 0 {
		v.numbers[3], v.qualifier = commits(last[i+1:])
		parts[len(parts)-1] = last[:i]
	}
	for i, p := range parts {
		n, ok := number(p)
		if !ok {
			return Version{}, fmt.Errorf("%w: app version %q: %q is not a number", ErrConfig, s, p)
		}
		v.numbers[i] = n
	}
	return v, nil
}

// commits splits "3-1234abcd" into 3 and the rest.
func commits(s string) (uint32, string) {
	head, tail, _ := strings.Cut(s, "-")
	if n, ok := number(head); ok {
		return n, tail
	}
	return 0, s
}

func number(s string) (uint32, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err == nil
}

// Compare orders by the numbers, then by the qualifier: one with a qualifier
// comes before the release without.
func (v Version) Compare(o Version) int {
	for i := range v.numbers {
		if c := cmp.Compare(v.numbers[i], o.numbers[i]); c != 0 {
			return c
		}
	}
	return cmp.Or(compareBool(v.qualifier == "", o.qualifier == ""), cmp.Compare(v.qualifier, o.qualifier))
}
