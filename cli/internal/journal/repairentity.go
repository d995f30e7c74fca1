package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// maxShownRecords is the number of records that a report lists: as many as a reader looks at. The rest is counted.
	maxShownRecords = 20
	// maxFound is the number of entities that roost journal repair find lists at most.
	maxFound = 100
	// findPage is the page size when listing entities.
	findPage = 500
	// probeTimeout bounds the time until the repaired entity is served again. A shard takes about a second.
	probeTimeout = 10 * time.Second
	// noShard means that --shard is not given.
	noShard = -1
)

const repairRecordHelp = `Shows the damaged data of an entity, and how it can be repaired. One of these flags
repairs it:

  --back-to N  go back to the state after record N: later records are set aside,
               and a later snapshot is dropped
  --skip N     set record N aside, and keep the records after it: only the author
               of the type knows whether their effect is right without it
  --reply N    give up the damaged reply of record N: a repeat of its command is
               answered that it was applied, and that the reply is lost
  --rows       remove reminders, remembered starts and kept sends whose record
               cannot be read
  --delete     delete the entity although it is damaged

A record that is set aside stays in its place, without its events. The original is
written to the file --out first, as a line of JSON, so nothing is lost permanently. The
reminders that the record has set, and the sends that are not delivered yet, are
removed. What was delivered is not undone. A repeat of the record's command is
refused (aborted). If the record cannot be read, its key is not known, so a repeat
with any unknown key from before the repair is refused.

The repair claims the shard of the entity, so that its region gives the shard up, and
writes or answers nothing that the repair does not know of. Commands for the shard
wait for about a second. The repair is one transaction, with the line that roost
journal repair ls shows. The shard is claimed before the entity is read; if the entity has
changed since then, nothing is done, and the command tries again, up to five times.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
or from the cluster that "roost dev" runs in --dir. PostgreSQL needs the role that owns
the schema, and no more than roost_reader to look, or with --dry-run.`

const repairSnapshotHelp = `Drops the snapshot of an entity, because it is damaged, or because its state is wrong
after a mistake in a reducer. The state is then rebuilt from the events. The repair claims
the shard first, so the wrong state is gone from memory, too. Roll out the region with
the corrected reducer before, or the next snapshot will be wrong again.

It is refused if events that are needed were trimmed or are damaged, because then only
the snapshot has their effect. To drop many snapshots, with a check that your code does
not need them, use roost journal snapshot drop. The journal is given as for roost journal repair record.`

// repair is a repair as the command line asks for it.
type repair struct {
	journal       journalFlags
	out           string
	shard         int
	dryRun        bool
	do            journal.Repair
	entity        sharding.Entity
	backTo, skip  int64
	reply         int64
	rows, deletes bool
	region        string // that serves the entity again
	probe         error  // why none does
}

func (r *repair) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	r.journal.add(cmd, "URL of the journal, for the owner of its schema; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	f.StringVar(&r.do.Reason, "reason", "", "why; it is kept, and must be given unless nothing is changed")
	f.BoolVar(&r.dryRun, "dry-run", false, "say what would be done, and change nothing")
	f.StringVar(&r.out, "out", "", "a new file for what is set aside")
	f.IntVar(&r.shard, "shard", noShard, "the shard of the entity, if the coordinators' facts cannot say it")
}

func (a *group) repairRecordCommand() *cobra.Command {
	r := &repair{}
	cmd := &cobra.Command{
		Use: "record TYPE/ID", Short: "Show and repair damaged records of an entity", Long: repairRecordHelp, Args: cobra.ExactArgs(1),
		Example: "  roost journal repair record Cart/dora\n" +
			"  roost journal repair record Cart/dora --back-to 41 --dry-run\n" +
			"  roost journal repair record Cart/dora --back-to 41 --out dora.jsonl --reason \"disk error, ticket 4711\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repairEntity(cmd, r, args[0])
		},
	}
	r.flags(cmd)
	f := cmd.Flags()
	f.Int64Var(&r.backTo, "back-to", -1, "go back to the state after this record; 0: to the empty entity")
	f.Int64Var(&r.skip, "skip", -1, "set this record aside")
	f.Int64Var(&r.reply, "reply", -1, "give up the damaged reply of this record")
	f.BoolVar(&r.rows, "rows", false, "remove reminders and kept sends whose record cannot be read")
	f.BoolVar(&r.deletes, "delete", false, "delete the entity")
	f.BoolVar(&r.do.Intact, "intact", false, "with --skip: the record need not be damaged")
	return cmd
}

func (a *group) repairSnapshotCommand() *cobra.Command {
	r := &repair{do: journal.Repair{Do: journal.RebuildState}}
	cmd := &cobra.Command{
		Use: "snapshot TYPE/ID", Short: "Drop an entity's snapshot and rebuild its state", Long: repairSnapshotHelp, Args: cobra.ExactArgs(1),
		Example: "  roost journal repair snapshot Cart/dora --out dora.jsonl --reason \"a reducer counted twice until v1.4.1\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repairEntity(cmd, r, args[0])
		},
	}
	r.flags(cmd)
	return cmd
}

// kind is the repair that the flags ask for; empty: only to look.
func (r *repair) kind(cmd *cobra.Command) error {
	number := func(name string, n int64, do journal.RepairKind) error {
		if !cmd.Flags().Changed(name) {
			return nil
		}
		if n < 0 {
			return app.Usage(fmt.Errorf("--%s is %d; it is the number of a record", name, n))
		}
		r.do.Do, r.do.Seq = do, uint64(n)
		return nil
	}
	if r.do.Do != "" {
		return nil
	}
	var given []string
	for _, name := range []string{"back-to", "skip", "reply", "rows", "delete"} {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return app.Usage(fmt.Errorf("%s are given; one repair at a time", strings.Join(given, " and ")))
	}
	err := errors.Join(number("back-to", r.backTo, journal.GoBack), number("skip", r.skip, journal.SkipRecord), number("reply", r.reply, journal.LoseReply))
	switch {
	case r.rows:
		r.do.Do = journal.DropRows
	case r.deletes:
		r.do.Do = journal.DeleteEntity
	}
	return err
}

func (a *group) repairEntity(cmd *cobra.Command, r *repair, name string) error {
	typ, id, err := app.EntityOf([]string{name}, "TYPE/ID, such as Cart/dora")
	if err != nil {
		return err
	}
	r.entity = sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}
	if err := r.kind(cmd); err != nil {
		return err
	}
	return a.runRepair(cmd.Context(), r)
}

// runRepair examines an entity, prints what is damaged, and runs the requested repair.
func (a *group) runRepair(ctx context.Context, r *repair) error {
	if r.do.Do != "" && !r.dryRun && strings.TrimSpace(r.do.Reason) == "" {
		return app.Usage(errors.New("--reason is missing; say why: it is kept (roost journal repair ls)"))
	}
	at, err := a.journalAt(&r.journal)
	if err != nil {
		return err
	}
	raw, shard, err := readEntity(ctx, at, r)
	if err != nil {
		return journalError(err)
	}
	r.do.Entity, r.do.Shard, r.do.By = r.entity, shard, app.WhoAmI()
	if r.do.Do == "" {
		return a.printExamined(raw)
	}
	if r.do.Do == journal.DropReminder {
		if err := checkReminder(raw, r.do.Name); err != nil {
			return err
		}
	}
	plan, err := journal.PlanRepair(raw, &r.do, time.Now())
	if err != nil {
		return err
	}
	if r.dryRun {
		return a.printRepair(r, raw, &plan)
	}
	if err := r.checkFile(&plan); err != nil {
		return err
	}
	store := repairStore{
		fence:  func() error { return journalopen.Fence(ctx, at, journal.DefaultConfig(), shard) },
		read:   func() (*journal.RawEntity, error) { raw, _, err := readEntity(ctx, at, r); return raw, err },
		repair: func() (journal.RepairPlan, error) { return journalopen.Repair(ctx, at, journal.DefaultConfig(), &r.do) },
	}
	if raw, plan, err = r.perform(&store); err != nil {
		return journalError(err)
	}
	r.region, r.probe = a.probe(ctx, r)
	return a.printRepair(r, raw, &plan)
}

func setsAside(p *journal.RepairPlan) bool {
	return len(p.SetAside)+len(p.Wakes)+len(p.Sends) > 0 || p.SnapshotSeq > 0
}

// checkFile returns an error if the repair sets something aside, and has no file for it.
func (r *repair) checkFile(p *journal.RepairPlan) error {
	switch {
	case !setsAside(p):
	case r.out == standardStream:
		return app.Usage(errors.New("--out is -; name a new file: the repair is stored with its name and hash"))
	case r.out == "" && r.do.Do != journal.DropReminder:
		return app.Usage(errors.New("--out is missing; name a new file: what is set aside is written there before anything is changed (--dry-run shows it)"))
	}
	return nil
}

// repairStore holds a repair's operations on the journal.
type repairStore struct {
	fence  func() error
	read   func() (*journal.RawEntity, error)
	repair func() (journal.RepairPlan, error)
}

// repairAttempts is the number of attempts to repair an entity that is written to: after each fence, its region has the
// shard again within a second, and may have written before the repair.
const repairAttempts = 5

// perform repairs the entity. It fences the shard before it reads what is to be set aside: a repair is refused if the
// entity has changed since then, and one that is written to all the time would have changed each time.
func (r *repair) perform(s *repairStore) (raw *journal.RawEntity, plan journal.RepairPlan, err error) {
	for range repairAttempts {
		if err = s.fence(); err != nil {
			return nil, plan, err
		}
		if raw, err = s.read(); err != nil {
			return nil, plan, err
		}
		if plan, err = journal.PlanRepair(raw, &r.do, time.Now()); err != nil {
			return nil, plan, err
		}
		if err = r.checkFile(&plan); err != nil { // it may have had nothing to set aside before
			return nil, plan, err
		}
		r.do.File, r.do.SHA256 = "", ""
		if setsAside(&plan) && r.out != "" {
			if err = r.writeAside(raw, &plan); err != nil {
				return nil, plan, err
			}
		}
		r.do.Expect = plan.Digest
		plan, err = s.repair()
		if err != nil && r.do.File != "" && errors.Is(err, journal.ErrRepair) { // nothing was set aside
			err = errors.Join(err, os.Remove(r.out))
		}
		if !errors.Is(err, journal.ErrChanged) {
			return raw, plan, err
		}
	}
	return nil, plan, fmt.Errorf("%w; it was tried %d times: the entity is written to all the time. Keep its commands away with roost entity quarantine %s, repair it, and release it", err, repairAttempts, r.entity)
}

// probe sends a command to the repaired entity that changes nothing: its region has to take the shard again for that,
// and to load the entity. It returns the region, or why none has answered in time.
func (a *group) probe(ctx context.Context, r *repair) (region string, err error) {
	admin, err := a.AdminClient()
	if err != nil {
		return "", err
	}
	key, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	res, err := admin.Command(ctx, &adminv1.CommandRequest{
		Type: string(r.entity.Type), Id: string(r.entity.ID), Command: sharding.ReminderDropCommand, Payload: []byte(`{"name":""}`), // which it refuses
		IdempotencyKey: key.String(), Reason: "it was repaired, and is to be served again", By: app.WhoAmI(),
	}, probeTimeout)
	switch {
	case err != nil:
		return "", err
	case res.Outcome == sharding.NotApplied.String() && res.Code == string(sharding.InvalidArgument):
		return cmp.Or(res.Region, "its region"), nil
	}
	return "", errors.New(res.Message)
}

// readEntity reads the stored data of an entity, and finds its shard.
func readEntity(ctx context.Context, at journalopen.At, r *repair) (*journal.RawEntity, sharding.ShardID, error) {
	var shard sharding.ShardID
	reader, err := journalopen.Reader(ctx, at, journal.DefaultConfig())
	if err != nil {
		return nil, shard, err
	}
	defer func() { _ = reader.Close() }() // it has written nothing
	raw, err := reader.(journal.RawReader).Raw(ctx, r.entity)
	if err == nil {
		shard, err = entityShard(ctx, reader, r)
	}
	return &raw, shard, err
}

// entityShard finds the shard of an entity by the facts of the coordinators, who note the shard rule of each type.
func entityShard(ctx context.Context, reader journal.Reader, r *repair) (shard sharding.ShardID, err error) {
	facts, err := reader.Facts(ctx)
	if err != nil {
		return shard, err
	}
	desc := sharding.TypeDesc{Type: r.entity.Type}
	for _, t := range facts.Types {
		if t.Type == desc.Type {
			desc.Shards = t.Shards
		}
	}
	switch {
	case desc.Shards == 0:
		return shard, fmt.Errorf("the journal has no entity type %s", r.entity.Type)
	case r.shard != noShard && (r.shard < 0 || uint64(r.shard) >= uint64(desc.Shards)):
		return shard, app.Usage(fmt.Errorf("--shard is %d; %s has shards 0 to %d", r.shard, r.entity.Type, desc.Shards-1))
	case r.shard != noShard:
		return sharding.ShardID{Type: r.entity.Type, Index: uint32(r.shard)}, nil
	}
	found, err := reader.Load(ctx, journal.LoadRequest{Entity: wire.FactsEntity})
	for i := range found.Records {
		for _, e := range found.Records[i].Events {
			if e.Name != wire.TypeFactName || err != nil {
				continue
			}
			var f wire.TypeFact
			if f, err = wire.DecodeTypeFact(e.Payload); err == nil && f.Desc.Type == desc.Type {
				desc.Rule = f.Desc.Rule
			}
		}
	}
	if err != nil {
		return shard, fmt.Errorf("the coordinators' facts say by what rule %s is sharded, and cannot be read: repair them first (roost journal repair facts), or name the shard with --shard: %w", r.entity.Type, err)
	}
	return desc.ShardOf(r.entity.ID), nil
}
