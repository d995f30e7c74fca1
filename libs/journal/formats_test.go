package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
)

// TestFormats lists the journals that this program works on, and the errors for others.
func TestFormats(t *testing.T) {
	type journalOf struct {
		format, reader, writer int
		says                   string // empty: it works
	}
	const own, later = journal.Format, journal.Format + 1
	cases := []journalOf{
		{own, own, own, ""},
		{later, own, own, ""}, // expanded by the next release, not activated
		{later, later, own, fmt.Sprint("activated for format ", later)},
		{later, own, later, fmt.Sprint("activated for format ", later)},
		{later, later, later, "run the release that activated it"},
		{0, 1, 1, "is 0"},
		{own, 0, 0, "is 0"},
	}
	if own > 1 {
		cases = append(cases,
			journalOf{own - 1, own - 1, own - 1, "roost journal upgrade"},
			journalOf{own, own - 1, own - 1, ""}, // not activated yet
		)
	}
	for _, c := range cases {
		f := journal.NewFacts(7)
		f.Cluster, f.Format, f.MinReader, f.MinWriter = "blue", c.format, c.reader, c.writer
		merged, err := f.Merge(journal.Declaration{Cluster: "blue"})
		switch {
		case c.says == "":
			if err != nil || merged.Format != c.format {
				t.Errorf("%+v: %+v, %v", c, merged, err)
			}
		case !errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%+v: %v", c, err)
		}
	}
}
