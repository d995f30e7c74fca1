package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/progress"
)

// standardStream is the name of a backup file that is standard output, or standard input.
const standardStream = "-"

const backupHelp = `Writes a backup of the journal to FILE while the cluster runs: all that is stored, as of
one moment. FILE "-" is standard output, for a pipe that compresses or encrypts. A file
that exists is not overwritten, and FILE appears only when it is complete.

If an older copy was put over an SQLite file, it is refused: what was acknowledged would not
be in it. See docs/running/repair.md.

The lease and what is in memory are not part of it. A user of PostgreSQL needs no more
than the role roost_reader. While it runs, the log of an SQLite file grows with each
write, and PostgreSQL keeps old versions of rows.

If the journal has several databases (--journal.databases), all are in the file, each
as it was at a moment of its own; the output names these moments and how far they are
apart.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
or from the cluster that "roost dev" runs in --dir. See docs/running/backup.md.`

const backupCheckHelp = `Reads a whole backup file and checks that it is complete and unchanged. It names the
cluster and the time of the backup. FILE "-" is standard input. To see that a backup can be
restored, restore it to a journal of its own, for example sqlite:/tmp/rehearsal.db.`

// backedUp is the output of backup and backup check.
type backedUp struct {
	File       string    `json:"file"`
	Bytes      int64     `json:"bytes"`
	Store      string    `json:"store"`
	Cluster    string    `json:"cluster"`
	Taken      time.Time `json:"taken"`
	Format     int       `json:"format"`
	Generation string    `json:"generation"`
	Term       uint32    `json:"term"`
	// Databases lists the databases of a journal that has several. The fields above describe the first one.
	Databases []backedUpDatabase `json:"databases,omitempty"`
	// Skew is the time between the earliest and the latest moment of them, in seconds.
	Skew float64 `json:"skew_seconds,omitempty"`
}

// backedUpDatabase is one of several databases in a backup.
type backedUpDatabase struct {
	Number     int       `json:"number"`
	Store      string    `json:"store"`
	Taken      time.Time `json:"taken"`
	Generation string    `json:"generation"`
	Term       uint32    `json:"term"`
}

func newBackedUp(file string, all []backup.Header, bytes int64) backedUp {
	h := all[0]
	b := backedUp{
		File: file, Bytes: bytes, Store: h.Store, Cluster: h.Facts.Cluster, Taken: h.Taken, Format: h.Facts.Format,
		Generation: h.Facts.Generation.String(), Term: uint32(h.Facts.MaxEpoch.Term()),
	}
	if len(all) == 1 {
		return b
	}
	latest := h.Taken
	for _, d := range all {
		b.Databases = append(b.Databases, backedUpDatabase{d.Number, d.Store, d.Taken, d.Facts.Generation.String(), uint32(d.Facts.MaxEpoch.Term())})
		if d.Taken.Before(b.Taken) {
			b.Taken = d.Taken
		}
		if d.Taken.After(latest) {
			latest = d.Taken
		}
	}
	b.Skew = latest.Sub(b.Taken).Seconds()
	return b
}

// lines describes the content of a backup.
func (b backedUp) lines() (lines []string) {
	for _, d := range b.Databases {
		lines = append(lines, fmt.Sprintf("  database %-3d in %s, generation %s, %s, as of %s", d.Number, d.Store, d.Generation, termText(d.Term), d.Taken.UTC().Format(time.RFC3339Nano)))
	}
	if len(b.Databases) > 0 {
		lines = append(lines, fmt.Sprintf("  skew        %s between the moments of the databases: what entities of two of them told each other in that time may be in one only",
			time.Duration(b.Skew*float64(time.Second)).Round(time.Microsecond)))
	}
	return append(lines,
		fmt.Sprintf("  cluster     %q, journal in %s, format %d, generation %s", b.Cluster, b.Store, b.Format, b.Generation),
		fmt.Sprintf("  as of       %s, %s; whatever was acknowledged before is in it", b.Taken.UTC().Format(time.RFC3339Nano), termText(b.Term)),
	)
}

// termText is the highest term of a journal.
func termText(term uint32) string {
	if term == 0 {
		return "before the first term"
	}
	return fmt.Sprintf("term %d", term)
}

func (a *group) backupCommand() *cobra.Command {
	var f journalFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Back up the journal", Long: backupHelp, Args: app.OneFile,
		Example: "  roost journal backup shop-2026-01-02.backup --journal.url postgres://saver@db/roost\n  roost journal backup - | zstd > shop.backup.zst",
		RunE: func(cmd *cobra.Command, names []string) error {
			at, err := a.journalAt(&f)
			if err != nil {
				return err
			}
			return a.backUp(cmd.Context(), at, names[0])
		},
	}
	f.add(cmd, "URL of the journal; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	cmd.AddCommand(&cobra.Command{
		Use: "check FILE", Short: "Check a backup file", Long: backupCheckHelp, Args: app.OneFile,
		Example: "  roost journal backup check shop-2026-01-02.backup",
		RunE:    func(_ *cobra.Command, names []string) error { return a.checkBackup(names[0]) },
	})
	return cmd
}

func (a *group) backUp(ctx context.Context, at journalopen.At, file string) error {
	bar := progress.New(a.Err, "backed up", progress.Bytes)
	var h []backup.Header
	size, err := writeNew(a.Out, file, func(out io.Writer) (err error) {
		h, err = journalopen.Backup(ctx, at, journal.DefaultConfig(), out, bar.Show)
		return err
	})
	bar.End()
	if err != nil {
		return journalError(err)
	}
	if file == standardStream { // the backup is there
		defer func(out io.Writer) { a.Out = out }(a.Out)
		a.Out = a.Err
	}
	b := newBackedUp(file, h, size)
	if a.JSON() {
		return a.PrintJSON(b)
	}
	return a.PrintLines(append([]string{fmt.Sprintf("Backed up to %s, %s.", file, progress.Bytes(size))}, b.lines()...))
}

// journalError makes an error in the journal's URL one of the command line.
func journalError(err error) error {
	if errors.Is(err, journal.ErrConfig) {
		return app.Usage(fmt.Errorf("--journal.url: %w", err))
	}
	return err
}

// writeNew writes a file that does not exist yet, or to standard output, and returns how many bytes.
// The file appears when it is complete and on the disk.
func writeNew(standard io.Writer, file string, write func(io.Writer) error) (size int64, err error) {
	counted := &countingWriter{to: standard}
	if file == standardStream {
		if app.IsTerminal(standard) {
			return 0, app.Usage(errors.New("a backup is not for terminals; name a file, or write into a pipe"))
		}
		return counted.n, write(counted)
	}
	exists := func() error {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return app.Usage(errors.Join(err, fmt.Errorf("%s exists already; name another file", file)))
		}
		return nil
	}
	if err := exists(); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(file+".partial", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, app.Usage(fmt.Errorf("%s.partial exists already: another command is writing %s, or one was killed; in that case, remove %s.partial", file, file, file))
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return 0, fmt.Errorf("%s cannot be written: %w", file, path.Err) // the user has not named the other file
	}
	if err != nil {
		return 0, err
	}
	counted.to = f
	if err = exists(); err == nil { // another command may have completed it after the first look
		err = write(counted)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: make room on that disk, or name a file on another one, and run the command again", err)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return counted.n, syncDirectory(filepath.Dir(file))
}

// syncDirectory waits until the names in a directory are on the disk.
func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

type countingWriter struct {
	to io.Writer
	n  int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// readBackup calls read with a backup file, or standard input, and shows how far that is.
func (a *group) readBackup(file, what string, read func(io.Reader) error) (size int64, err error) {
	in, counted := os.Stdin, &countingReader{bar: progress.New(a.Err, what, progress.Bytes)}
	if file != standardStream {
		if in, err = os.Open(file); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		info, err := in.Stat()
		if err != nil {
			return 0, err
		}
		counted.total = info.Size()
	}
	counted.from = in
	err = read(counted)
	counted.bar.End()
	if errors.Is(err, backup.ErrDamaged) || errors.Is(err, backup.ErrFormat) {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return counted.n, err
}

type countingReader struct {
	from     io.ReadSeeker
	n, total int64
	bar      *progress.Bar
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.bar.Show(c.n, max(c.n, c.total))
	return n, err
}

// again begins to read a backup file each time it is called. Standard input can be read once.
func again(in io.Reader) func() (*backup.Reader, error) {
	read := false
	return func() (*backup.Reader, error) {
		if c := in.(*countingReader); read {
			if _, err := c.from.Seek(0, io.SeekStart); err != nil {
				return nil, app.Usage(errors.New("a backup of several databases is read twice: first to the end, before anything is changed; name a file"))
			}
			c.n = 0
		}
		read = true
		return backup.NewReader(in)
	}
}

func (a *group) checkBackup(file string) error {
	var h []backup.Header
	size, err := a.readBackup(file, "checked", func(in io.Reader) (err error) {
		h, _, err = backup.Check(in)
		return err
	})
	if err != nil {
		return err
	}
	b := newBackedUp(file, h, size)
	if a.JSON() {
		return a.PrintJSON(b)
	}
	return a.PrintLines(append([]string{fmt.Sprintf("%s is complete, %s.", file, progress.Bytes(size))}, b.lines()...))
}
