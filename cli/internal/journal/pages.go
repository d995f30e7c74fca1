package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/progress"
)

// withPages adds to the result of a check of the journal which pages of its SQLite files are damaged, and which file is an
// older copy. What keeps the pages from
// being read keeps the region binary from its check, too, which has said so.
func (a *group) withPages(ctx context.Context, f toolFlags, result error) error {
	var status app.ToolStatus
	if f.config != "" || result != nil && !errors.As(result, &status) || os.Getenv("ROOST_JOURNAL_URL_FILE") != "" {
		return result
	}
	at, err := a.journalAt(&f.journal)
	if err != nil {
		return result
	}
	bar := progress.New(a.Err, "pages read", progress.Bytes)
	checked, err := open.CheckPages(ctx, at, journal.DefaultConfig(), bar.Show)
	bar.End()
	lines := pageLines(checked)
	switch {
	case ctx.Err() != nil:
		return app.ErrInterrupted
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrReplaced): // the file cannot even be opened, or is an older copy
		lines = append(lines, err.Error())
	case err != nil:
		return max(status, app.ExitUnchecked)
	}
	if lines == nil {
		return result
	}
	if _, err := fmt.Fprintln(a.Err, strings.Join(lines, "\n")); err != nil {
		return err
	}
	return max(status, app.ExitFailed)
}

// pageLines names the damaged pages; nil: none is damaged.
func pageLines(checked []open.CheckedPages) (lines []string) {
	for _, c := range checked {
		if c.Damaged == 0 {
			continue
		}
		more := ""
		if n := c.Damaged - int64(len(c.First)); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("Damaged pages of %s: %s%s (%d of %d).", c.Path, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(c.First), "[]")), ", "), more, c.Damaged, c.Pages),
			`Stop the coordinators and regions, and restore a backup (docs/running/repair.md, "Damaged pages of an SQLite file").`)
	}
	return lines
}
