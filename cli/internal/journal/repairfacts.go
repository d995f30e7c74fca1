package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/factrepair"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

const repairFactsHelp = `Repairs the facts of the coordinators: where shards are, which types there are, what
operators have asked for, which entities are quarantined, the target version. A coordinator that
cannot read its facts does not become active, and says so in its log and at /readyz?verbose.
No event, snapshot, reminder, send or key of an entity is touched.

Facts that can be read remain. If a record is lost, all shards are given out anew, at higher
epochs, to their last known regions. Requests of operators in that record must be made again.
--all drops everything that can be made anew, even if nothing is damaged. Types always remain,
with their numbers of shards, shard rules and forms.

The repair takes the place of the active coordinator. It watches the journal for five seconds, and
is refused if a coordinator is active. A coordinator that was paused is shut out. Regions and
gateways can go on. Coordinators that wait because of the damage become active by themselves
afterwards. Who has repaired the facts, and why, is kept with the facts.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL, or from
the cluster that "roost dev" runs in --dir. A user of PostgreSQL needs the role roost_service. See
docs/running/repair.md.`

func (a *group) repairFactsCommand() *cobra.Command {
	var f journalFlags
	var without []string
	var o factrepair.Options
	cmd := &cobra.Command{
		Use: "facts", Short: "Repair the facts of the coordinators", Long: repairFactsHelp, Args: cobra.NoArgs,
		Example: "  roost journal repair facts --dry-run --journal.url postgres://repairer@db/roost\n" +
			"  roost journal repair facts --reason \"a bad disk, see the log of 2 January\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Reason == "" && !o.DryRun {
				return app.Usage(errors.New("--reason is missing: say why, for those who look at the cluster later; or look first, with --dry-run"))
			}
			if o.Reason != "" {
				if err := sharding.CheckText("reason", o.Reason, journal.MaxReason); err != nil {
					return app.Usage(fmt.Errorf("--reason: %w", err))
				}
			}
			for _, typ := range without {
				o.Without = append(o.Without, sharding.EntityType(typ))
			}
			at, err := a.journalAt(&f)
			if err != nil {
				return err
			}
			o.By = app.WhoAmI()
			return a.repairFacts(cmd.Context(), at, o)
		},
	}
	flags := cmd.Flags()
	f.add(cmd, "URL of the journal; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	flags.StringVar(&o.Reason, "reason", "", "why; it is kept with the facts")
	flags.BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and change nothing")
	flags.BoolVar(&o.All, "all", false, "drop everything that can be made anew, also if nothing is damaged")
	flags.StringSliceVar(&without, "without", nil, "drop this entity type, whose declaration is lost; may be given several times")
	return cmd
}

// repairedFacts is the output of repair facts.
type repairedFacts struct {
	DryRun bool `json:"dry_run"`
	// Repaired is true if the facts are repaired, or would be.
	Repaired bool                 `json:"repaired"`
	Active   string               `json:"active,omitempty"` // which coordinator is active; a repair would be refused
	Findings []factstream.Finding `json:"findings"`
	Dropped  []string             `json:"dropped"` // intact facts that are dropped, by their names
	Kept     map[string]int       `json:"kept"`
	GivenOut int                  `json:"given_out"`
	NextTerm uint32               `json:"next_term,omitempty"`
}

func (a *group) repairFacts(ctx context.Context, at journalopen.At, o factrepair.Options) error {
	d, err := journalopen.Backend(ctx, at, journal.DefaultConfig())
	if err != nil {
		return journalError(err)
	}
	r, err := factrepair.Facts(ctx, d, o)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	out := repairedFacts{
		DryRun: o.DryRun, Repaired: !r.Nothing, Active: r.Active, Findings: append([]factstream.Finding{}, r.Findings...),
		Dropped: append([]string{}, r.Remainder.Dropped...), Kept: r.Remainder.Kept, GivenOut: r.Remainder.GivenOut,
	}
	if out.Repaired {
		out.NextTerm = uint32(r.Term) + 1
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintLines(out.lines())
}

func (r repairedFacts) lines() (lines []string) {
	switch {
	case !r.Repaired:
		return []string{"Nothing is damaged: nothing was done. --all drops everything that can be made anew."}
	case r.DryRun:
		lines = []string{"The facts would be repaired; nothing was changed."}
	default:
		lines = []string{"The facts are repaired."}
	}
	lines = append(lines, factFindings(r.Findings)...)
	for _, d := range r.Dropped {
		lines = append(lines, "  dropped     "+d)
	}
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(r.Kept)) {
		if name != factstream.RepairedName {
			kept = append(kept, fmt.Sprintf("%s: %d", name, r.Kept[name]))
		}
	}
	if len(kept) == 0 {
		kept = []string{"nothing"}
	}
	lines = append(lines, "  kept        "+strings.Join(kept, ", "))
	if r.GivenOut > 0 {
		lines = append(lines, fmt.Sprintf("  given out   %s anew, at epochs above all others", phrase.Plural(r.GivenOut, "shard")))
	}
	lines = append(lines, fmt.Sprintf("  from now on terms from %d on", r.NextTerm))
	switch {
	case r.Active != "":
		return append(lines, "It would be refused: a coordinator is active: "+r.Active+". Stop all coordinators first.")
	case r.DryRun:
		return lines
	}
	return append(lines, "Start the coordinators, if they do not run. Then look at roost placement status, roost entity quarantine and roost rollout status.")
}

// factFindings describes the damage, and what a repair loses with it.
func factFindings(list []factstream.Finding) (lines []string) {
	for _, f := range list[:min(len(list), mostFactFindings)] {
		lines = append(lines, "  damaged     "+f.String(), "  that costs  "+f.Cost)
	}
	if more := len(list) - mostFactFindings; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more; -o json has all", more))
	}
	return lines
}

// mostFactFindings is the number of findings that are printed for people at most.
const mostFactFindings = 50

// checkedFacts is the output of journal check --facts.
type checkedFacts struct {
	Damaged  bool                  `json:"damaged"`
	Findings []factstream.Finding  `json:"findings"`
	Repairs  []factstream.Repaired `json:"repairs"`
}

// checkFacts looks for damage in the coordinators' data. The cluster may run meanwhile.
func (a *group) checkFacts(ctx context.Context, at journalopen.At) (checkedFacts, error) {
	r, err := journalopen.Reader(ctx, at, journal.DefaultConfig())
	if err != nil {
		return checkedFacts{}, journalError(err)
	}
	c, err := factrepair.Check(ctx, r, 0)
	if err = errors.Join(err, r.Close()); err != nil {
		return checkedFacts{}, fmt.Errorf("the facts of the coordinators (%s) cannot be checked: %w", wire.FactsEntity, err)
	}
	return checkedFacts{Damaged: c.Damaged(), Findings: append([]factstream.Finding{}, c.Findings...), Repairs: append([]factstream.Repaired{}, c.Repairs...)}, nil
}

func (c checkedFacts) lines() (lines []string) {
	lines = []string{"The facts of the coordinators are intact."}
	if c.Damaged {
		lines = append([]string{"The facts of the coordinators are damaged:"}, factFindings(c.Findings)...)
		lines = append(lines, `See what a repair would do: roost journal repair facts --dry-run (docs/running/repair.md).`)
	}
	for _, r := range c.Repairs {
		lines = append(lines, fmt.Sprintf("  repaired    %s by %s: %s (%s damaged)", r.At.Format(time.RFC3339), r.By, r.Reason, phrase.Plural(r.Damaged, "thing")))
	}
	return lines
}

// journalCheckFacts checks the facts alone.
func (a *group) journalCheckFacts(ctx context.Context, f *journalFlags) error {
	at, err := a.journalAt(f)
	if err != nil {
		return app.Unchecked(err)
	}
	c, err := a.checkFacts(ctx, at)
	switch {
	case err != nil:
		return app.Unchecked(err)
	case a.JSON():
		err = a.PrintJSON(c)
	default:
		err = a.PrintLines(c.lines())
	}
	if err == nil && c.Damaged {
		err = app.ToolStatus(app.ExitFailed)
	}
	return err
}

// withFacts adds to the result of a tool on the journal whether the facts are damaged. What keeps the facts from
// being read keeps the tool from it, too, which has said so.
func (a *group) withFacts(ctx context.Context, f toolFlags, result error) error {
	var status app.ToolStatus
	if f.config != "" || result != nil && !errors.As(result, &status) || os.Getenv("ROOST_JOURNAL_URL_FILE") != "" {
		return result
	}
	at, err := a.journalAt(&f.journal)
	if err != nil {
		return result
	}
	c, err := a.checkFacts(ctx, at)
	if err != nil || !c.Damaged {
		return result
	}
	if _, err := fmt.Fprintln(a.Err, strings.Join(c.lines(), "\n")); err != nil {
		return err
	}
	return max(status, app.ExitFailed)
}
