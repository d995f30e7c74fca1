package diagnosis

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// clock is how a journal shows the clock of its store.
type clock interface {
	ReadClock(ctx context.Context) error
	ClockAhead() (time.Duration, bool)
}

// DescribeClock adds the clock of the journal's store. If it is not answered in time, the newest reading counts.
func DescribeClock(ctx context.Context, p *inspectionv1.Process, j clock) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	_ = j.ReadClock(ctx) // what else is wrong with the journal is shown elsewhere
	if ahead, known := j.ClockAhead(); known {
		p.StoreNowUnixMs = p.NowUnixMs + ahead.Milliseconds()
	}
}

// DescribeJournal adds where the journal is, and what it warns of. disk returns the free bytes and the size of the disk of
// a directory.
func DescribeJournal(p *inspectionv1.Process, rawURL string, warning error, disk func(dir string) (free, size uint64)) {
	if p.Journal, _, _ = strings.Cut(rawURL, ":"); warning != nil {
		p.JournalWarning = text(warning)
	}
	if u, err := url.Parse(rawURL); err == nil && u.Scheme == "sqlite" {
		file := u.Path
		if file == "" {
			file = u.Opaque
		}
		p.DiskFree, p.DiskSize = disk(filepath.Dir(file))
	}
}

// DescribeLease adds where the lease is, and why it cannot be used.
func DescribeLease(p *inspectionv1.Process, rawURL string, unusable error) {
	if p.Lease, _, _ = strings.Cut(rawURL, ":"); unusable != nil {
		p.LeaseError = text(unusable)
	}
}
