package server

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/progress"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server/stored"
)

// Exit codes of the tools.
const (
	toolOK     = 0 // the check passed, or all snapshots are dropped
	toolFound  = 1 // the check did not pass, or a snapshot was kept
	toolFailed = 2 // the tool could not do its work, or not all of it
)

// toolStatusEnv names an environment variable with a number that a region's tool adds to its exit
// code. The roost command sets the variable when it runs a binary as a tool. If the exit code is
// lower than the number, the binary does not belong to a region.
const toolStatusEnv = "ROOST_TOOL_STATUS"

const checkHelp = `Usage: %[1]s journal check [flags]

Reads everything that is stored of this program's entity types with this program's code:
the snapshots as a region would, and all events. It also compares the forms that this
program reads with those that the coordinators have noted for each shard, because a region
is given only shards whose forms it reads. It only reads, claims nothing, and can run while a
cluster does. Run it with a new version before you roll that out.

  --journal.url URL    the journal; or ROOST_JOURNAL_URL, or journal.url in the file
  --journal.databases  its other databases; or ROOST_JOURNAL_DATABASES, or the file
  --config FILE        a region's configuration file (or ROOST_CONFIG)
  --type TYPE          check this type only; may be given several times
  --sample N           check N entities of each type, chosen at random; 0: all (default 0)
  --seed S             choose the same sample again: the seed that was printed
  -o, --output FORMAT  text or json (default text)

A user of PostgreSQL needs no more than the role roost_reader.

Exit codes: 0 this program reads everything, 1 it does not: it cannot read something that
is stored, would not be given a shard, or lacks a type (--type leaves types out), 2 the
check could not be done, or not to its end.
`

const dropHelp = `Usage: %[1]s snapshot drop TYPE[/ID] [flags]

Drops the snapshots of all entities of a type, or of one entity, so that they are rebuilt
from their events when they are loaded next. If this program could not rebuild an entity
without its snapshot, the snapshot is kept, and the exit code is 1. It can run while a
cluster does; an entity that is live in a region keeps its state until it is loaded again.

  --dry-run            say how many there are, and drop none
  --journal.url URL    the journal; or ROOST_JOURNAL_URL, or journal.url in the file
  --journal.databases  its other databases; or ROOST_JOURNAL_DATABASES, or the file
  --config FILE        a region's configuration file (or ROOST_CONFIG)
  -o, --output FORMAT  text or json (default text)

Exit codes: 0 all snapshots are dropped, 1 some were kept, 2 it could not be done, or not
to its end.
`

// toolConfig is a region's configuration as a tool reads it. A tool needs only the key with the
// address of the journal. The other keys are accepted and ignored, so that a tool can read the
// configuration file of a region.
type toolConfig Config

// Validate refuses a configuration without a journal.
func (c *toolConfig) Validate() error {
	if c.Journal.URL == "" {
		return errors.New("journal.url is empty; give the journal of the cluster by --journal.url, by ROOST_JOURNAL_URL, or in the file that --config names")
	}
	return nil
}

// tool is one run of a tool.
type tool struct {
	program  string
	types    []entity.Definition
	out, err io.Writer
	at       journalopen.At
	json     bool
}

// runTool runs the tool that the arguments name, and returns its exit code. ok is false if
// they name none: then the program is to run as a region.
func runTool(args, environ []string, types []entity.Definition, out, errOut io.Writer) (code int, ok bool) {
	tools := map[string]func(*tool, context.Context, []string, []string) (bool, error){
		"journal check": (*tool).check, "snapshot drop": (*tool).drop,
	}
	if len(args) < 2 || tools[args[0]+" "+args[1]] == nil {
		return 0, false
	}
	for _, e := range environ {
		if name, value, _ := strings.Cut(e, "="); name == toolStatusEnv {
			n, _ := strconv.Atoi(value) // a value that is not a number adds nothing
			defer func() { code += n }()
		}
	}
	t := &tool{program: filepath.Base(os.Args[0]), types: types, out: out, err: errOut}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Each panic of a reducer or conversion function is logged with its stack. These may be many,
	// so only the first lines of the log are printed.
	slog.SetDefault(slog.New(&firstLines{Handler: slog.NewTextHandler(errOut, nil), logged: &atomic.Int64{}}))
	found, err := tools[args[0]+" "+args[1]](t, ctx, args[2:], environ)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return toolOK, true
	case err != nil:
		fmt.Fprintf(errOut, "%s: %s\n", t.program, backendurl.RedactText(err.Error()))
		return toolFailed, true
	case found:
		return toolFound, true
	}
	return toolOK, true
}

// maxToolLog is the maximum number of lines that a tool logs: the first ones show what is wrong with the code.
const maxToolLog = 10

// firstLines is a log that ends after maxToolLog lines.
type firstLines struct {
	slog.Handler
	logged *atomic.Int64 // lines, also those that were left out
}

// Enabled counts a line, and reports whether it may be logged.
func (h *firstLines) Enabled(context.Context, slog.Level) bool { return h.logged.Add(1) <= maxToolLog }

// typeList is the value of a flag that may be given several times.
type typeList []sharding.EntityType

func (l *typeList) String() string     { return fmt.Sprint(*l) }
func (l *typeList) Set(v string) error { *l = append(*l, sharding.EntityType(v)); return nil }

// parse reads the flags that all tools have, and those that were added to f.
func (t *tool) parse(f *flag.FlagSet, help string, args, environ []string) error {
	f.SetOutput(io.Discard)
	url, databases, file := f.String("journal.url", "", ""), f.String("journal.databases", "", ""), f.String("config", "", "")
	var output string
	f.StringVar(&output, "output", "text", "")
	f.StringVar(&output, "o", "text", "")
	see := fmt.Sprintf("; see %s %s --help", t.program, f.Name())
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(t.out, help, t.program)
		return err
	} else if err != nil {
		return fmt.Errorf("%w%s", err, see)
	}
	if t.json = output == "json"; !t.json && output != "text" && output != "table" {
		return fmt.Errorf("-o %q: write text or json%s", output, see)
	}
	var given []string
	if *file != "" {
		given = append(given, "--config", *file)
	}
	if *url != "" {
		given = append(given, "--journal.url", *url)
	}
	if *databases != "" {
		given = append(given, "--journal.databases", *databases)
	}
	cfg := toolConfig(DefaultConfig())
	if _, err := config.Load(&cfg, given, environ); err != nil {
		return err
	}
	t.at = journalopen.At{URL: cfg.Journal.URL, Databases: cfg.Journal.Databases}
	return nil
}

// check runs "journal check", and reports whether something cannot be read.
func (t *tool) check(ctx context.Context, args, environ []string) (found bool, err error) {
	cfg := stored.DefaultConfig()
	f := flag.NewFlagSet("journal check", flag.ContinueOnError)
	f.Var((*typeList)(&cfg.Types), "type", "")
	f.IntVar(&cfg.Sample, "sample", 0, "")
	f.Uint64Var(&cfg.Seed, "seed", 1+rand.Uint64N(1<<32), "")
	if err := t.parse(f, checkHelp, args, environ); err != nil {
		return false, err
	}
	switch {
	case f.NArg() > 0:
		return false, fmt.Errorf("argument %q: all that can be given are flags; see %s journal check --help", f.Arg(0), t.program)
	case cfg.Sample < 0 || cfg.Sample > stored.MaxSample:
		return false, fmt.Errorf("--sample is %d, must be 1 to %d; 0 checks all", cfg.Sample, stored.MaxSample)
	}
	r, err := t.open(ctx, &cfg)
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }() // it has written nothing
	p := progress.New(t.err, "checked", progress.Plain)
	cfg.Progress = func(done, total int) { p.Show(int64(done), int64(total)) }
	report, err := stored.Check(ctx, r, t.types, cfg)
	p.End()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil && len(report.Types) == 0 {
		return false, err
	}
	if t.json {
		err = errors.Join(err, json.NewEncoder(t.out).Encode(&report))
	} else {
		err = errors.Join(err, writeReport(t.out, &report))
	}
	return !report.Passed(), err
}

// drop runs "snapshot drop", and reports whether a snapshot was kept.
func (t *tool) drop(ctx context.Context, args, environ []string) (kept bool, err error) {
	f := flag.NewFlagSet("snapshot drop", flag.ContinueOnError)
	dry := f.Bool("dry-run", false, "")
	var target string // TYPE or TYPE/ID, before or after the flags
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		target, args = args[0], args[1:]
	}
	if err := t.parse(f, dropHelp, args, environ); err != nil {
		return false, err
	}
	if target == "" && f.NArg() == 1 {
		target = f.Arg(0)
	} else if target == "" || f.NArg() > 0 {
		return false, fmt.Errorf("one TYPE or TYPE/ID is needed; see %s snapshot drop --help", t.program)
	}
	typ, id, slash := strings.Cut(target, "/")
	if slash && id == "" {
		return false, fmt.Errorf("%q has no id after the slash; write %s for all entities of the type", target, typ)
	}
	cfg := stored.DefaultConfig()
	r, err := t.open(ctx, &cfg)
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }() // it has written nothing
	var submit stored.Submit
	if !*dry {
		facts, err := r.Facts(ctx)
		if err != nil {
			return false, err
		}
		j, err := journalopen.Journal(ctx, t.at, journal.Declaration{Cluster: facts.Cluster}, journal.DefaultConfig(), commit.Observer{}, func(err error) { slog.Warn(err.Error()) })
		if err != nil {
			return false, err
		}
		defer func() { _ = j.Close() }() // all results are known
		submit = j.Submit
	}
	p := progress.New(t.err, "done", progress.Plain)
	cfg.Progress = func(done, total int) { p.Show(int64(done), int64(total)) }
	report, err := stored.DropSnapshots(ctx, r, t.types, sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}, submit, cfg)
	p.End()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil && report.Entities == 0 {
		return false, err
	}
	if t.json {
		err = errors.Join(err, json.NewEncoder(t.out).Encode(&report))
	} else {
		err = errors.Join(err, writeDropped(t.out, &report))
	}
	return report.Kept > 0, err
}

// writeDropped writes a report for people.
func writeDropped(w io.Writer, r *stored.DropReport) error {
	b := &strings.Builder{}
	done := "were dropped"
	if r.DryRun {
		done = "would be dropped"
	}
	fmt.Fprintf(b, "entities: %d\nsnapshots that %s: %d\n", r.Entities, done, r.Dropped)
	if r.Newer > 0 {
		fmt.Fprintf(b, "snapshots that regions have replaced meanwhile, and that stay: %d\n", r.Newer)
	}
	if r.Kept > 0 {
		fmt.Fprintf(b, "snapshots that were kept, because this program could not rebuild the entity: %d\n", r.Kept)
	}
	for i := range r.Problems {
		writeProblem(b, &r.Problems[i])
	}
	if r.Others > 0 {
		fmt.Fprintf(b, "\nentities with problems of other kinds: %d\n", r.Others)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// open opens the journal to read it.
func (t *tool) open(ctx context.Context, cfg *stored.Config) (journal.Reader, error) {
	jc := journal.DefaultConfig()
	jc.Loads, jc.LoadTimeout = cfg.Loads+1, cfg.LoadTimeout // one more for the lists
	return journalopen.Reader(ctx, t.at, jc)
}

// writeReport writes a report for people.
func writeReport(w io.Writer, r *stored.Report) error {
	b := &strings.Builder{}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TYPE\tENTITIES\tCHECKED\tEVENTS\tSNAPSHOTS\tIGNORED\tUNREADABLE\tREMINDERS\tSENDS\tANSWERS")
	ignored, trimmed := 0, 0
	for _, t := range r.Types {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Type, t.Entities, t.Checked, t.Events, t.Snapshots, t.Ignored, t.Unreadable, t.Reminders, t.Sends, t.Answers)
		ignored += t.Ignored
		trimmed += t.Trimmed
	}
	_ = table.Flush() // into memory
	if r.Sample > 0 {
		fmt.Fprintf(b, "a sample of at most %d entities of each type: --seed %d\n", r.Sample, r.Seed)
	}
	if ignored > 0 {
		fmt.Fprintln(b, "ignored snapshots are of a form that this program does not read; it rebuilds the entities from their events")
	}
	if trimmed > 0 {
		fmt.Fprintf(b, "entities with trimmed events: %d; their snapshots and the events after them were read\n", trimmed)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(b, "not checked: type %s, entities: %d: %s\n", s.Type, s.Entities, s.Reason)
	}
	for i := range r.Problems {
		writeProblem(b, &r.Problems[i])
	}
	if r.Others > 0 {
		fmt.Fprintf(b, "\nentities with problems of other kinds: %d; mend these first and check again\n", r.Others)
	}
	for i := range r.Forms {
		writeForm(b, &r.Forms[i])
	}
	if r.OtherForms > 0 {
		fmt.Fprintf(b, "\nother forms that this program does not read: %d\n", r.OtherForms)
	}
	if n := r.Unreadable(); n > 0 {
		fmt.Fprintf(b, "\nentities that this program cannot read: %d\n", n)
	}
	if n := r.UnreadInputs(); n > 0 {
		fmt.Fprintf(b, "\nreminders, sends and answers that this program cannot read: %d\n", n)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintln(b, "this program does not read all types that are stored; if other binaries host the rest, check each binary with --type for its own")
	}
	if r.Complete && r.Passed() {
		fmt.Fprintln(b, "this program reads all of it")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeForm writes a form that this program does not read.
func writeForm(b *strings.Builder, f *stored.UnreadForm) {
	fmt.Fprintf(b, "\ntype %s, %s: %s\n  fix: %s\n", f.Type, f.Form, f.Problem, f.Fix)
	if f.Shards > 0 {
		fmt.Fprintf(b, "  shards in which it is stored, so that a region with this program is not given them: %d\n", f.Shards)
	}
	if f.MayShards > 0 {
		fmt.Fprintf(b, "  shards in which none was found, but whose regions may store it; then a region with this program is not given them either: %d\n", f.MayShards)
	}
}

func writeProblem(b *strings.Builder, p *stored.Problem) {
	fmt.Fprintf(b, "\n%s: %s\n", p.Subject(), p.Problem)
	if p.Loads {
		fmt.Fprintln(b, "  it lies before a snapshot that can be read: the entities load as long as such a snapshot is used")
	}
	what := "entities"
	switch {
	case p.What == "input" && p.Version == 0:
		what = "answers"
	case p.What == "input":
		what = "inputs"
	}
	fmt.Fprintf(b, "  fix: %s\n", p.Fix)
	if p.Shards > 0 {
		fmt.Fprintf(b, "  shards in which it is stored, so that a region with this program is not given them: %d\n", p.Shards)
	}
	fmt.Fprintf(b, "  %s: %d\n", what, p.Entities)
	for _, x := range p.Examples {
		fmt.Fprintf(b, "    %s/%s", p.Type, x.ID)
		if x.Seq > 0 && p.What == "snapshot" {
			fmt.Fprintf(b, ", snapshot at %d", x.Seq)
		} else if x.Seq > 0 {
			fmt.Fprintf(b, ", record %d", x.Seq)
		}
		if x.Detail != "" {
			fmt.Fprintf(b, ": %s", x.Detail)
		}
		fmt.Fprintln(b)
	}
	if more := p.Entities - len(p.Examples); more > 0 {
		fmt.Fprintf(b, "    and others: %d\n", more)
	}
}
