package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// mostTop is the largest number of rows that a coordinator answers.
const mostTop = 1000

// top holds the flags of "roost cluster top".
type top struct {
	typ              string
	n                uint32
	shards, entities bool // only these; neither: both
	once             bool
	every            time.Duration
}

func (a *group) topCommand() *cobra.Command {
	var o top
	cmd := &cobra.Command{
		Use: "top", Short: "Show the busiest shards and entities, live", Args: cobra.NoArgs,
		Example: "  roost cluster top                        # live, in a terminal\n  roost cluster top --entities -n 50 --once\n  roost cluster top --type Cart -o json",
		Long: `Asks all regions which of their shards and entities take most, and lists the heaviest of all.
In a terminal it does so every two seconds until Ctrl-C. If the output goes elsewhere, or
with -o json, it prints once, unless --every is given.

COMMANDS   commands per second
HANDLERS   how long handlers run, in percent of one processor. Waiting for the answers of
           other entities is left out
WAITING    commands that wait in mailboxes, on average
ENTITIES   entities in memory, and MEMORY their size, as far as they tell it

These are averages in which what was measured 15 s ago (region.load_half_life) counts half.
Shards are ordered by about the load that the strategy "load" counts, entities by their
handlers and 20 µs per command. Each region keeps the 1,024 hottest entities. Of many
short commands it counts a random part, so the rates of entities are estimates.

Regions that do not answer in time are named, and nothing of them is listed.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			every := cmd.Flags().Changed("every")
			switch {
			case o.n == 0 || o.n > mostTop:
				return app.Usage(fmt.Errorf("-n is %d; it must be 1 to %d", o.n, mostTop))
			case o.every < 100*time.Millisecond:
				return app.Usage(fmt.Errorf("--every is %s; it must be at least 100ms", o.every))
			case o.once && every:
				return app.Usage(errors.New("--once cannot be combined with --every"))
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			live := app.IsTerminal(a.Out) && !a.JSON()
			if o.once || !live && !every {
				res, err := admin.Top(cmd.Context(), o.request())
				if err != nil {
					return err
				}
				return a.printTop(res)
			}
			return a.watchTop(cmd.Context(), admin, &o, live)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.typ, "type", "", "only this entity type")
	flags.BoolVar(&o.shards, "shards", false, "only shards")
	flags.BoolVar(&o.entities, "entities", false, "only entities")
	flags.Uint32VarP(&o.n, "number", "n", 10, "how many shards and entities to list")
	flags.BoolVar(&o.once, "once", false, "print once, and end")
	flags.DurationVar(&o.every, "every", 2*time.Second, "how often to ask again")
	return cmd
}

func (o *top) request() *adminv1.TopRequest {
	req := &adminv1.TopRequest{Type: o.typ}
	if o.shards || !o.entities {
		req.Shards = o.n
	}
	if o.entities || !o.shards {
		req.Entities = o.n
	}
	return req
}

// clearScreen moves the cursor to the top left corner, and erases everything.
const clearScreen = "\x1b[H\x1b[2J"

// watchTop asks again and again until Ctrl-C, and redraws the screen if the view is live. While no
// coordinator answers, a live view says so and continues.
func (a *group) watchTop(ctx context.Context, admin *adminclient.Client, o *top, live bool) error {
	out := a.Out
	defer func() { a.Out = out }()
	for {
		var page bytes.Buffer
		if a.Out = &page; live {
			page.WriteString(clearScreen)
		}
		res, err := admin.Top(ctx, o.request())
		switch {
		case ctx.Err() != nil:
			return app.ErrInterrupted
		case err != nil && live && errors.Is(err, adminclient.ErrUnreachable):
			fmt.Fprintln(&page, app.Message(err))
		case err != nil:
			return err
		default:
			if err := a.printTop(res); err != nil {
				return err
			}
		}
		if _, err := out.Write(page.Bytes()); err != nil {
			return err
		}
		if err := pause(ctx, o.every); err != nil {
			return err
		}
	}
}

func (a *group) printTop(res *adminv1.TopResponse) error {
	if a.JSON() {
		return a.PrintMessage(res)
	}
	if len(res.Shards) > 0 {
		var rows [][]any
		for _, s := range res.Shards {
			rows = append(rows, []any{
				fmt.Sprintf("%s/%d", s.Type, s.Index), phrase.Named(s.Region), phrase.PerSecond(s.Commands), phrase.Percent(s.Handlers), fmt.Sprintf("%.1f", s.Waiting), s.Entities, phrase.Mebibytes(s.Bytes),
			})
		}
		if err := a.PrintTable([]string{"SHARD", "REGION", "COMMANDS", "HANDLERS", "WAITING", "ENTITIES", "MEMORY"}, rows, "COMMANDS", "HANDLERS", "WAITING", "ENTITIES", "MEMORY"); err != nil {
			return err
		}
	}
	if len(res.Entities) > 0 {
		if len(res.Shards) > 0 {
			if err := a.PrintLines([]string{""}); err != nil {
				return err
			}
		}
		var rows [][]any
		for _, e := range res.Entities {
			rows = append(rows, []any{phrase.Named(e.Type + "/" + e.Id), fmt.Sprintf("%s/%d", e.Type, e.Index), phrase.Named(e.Region), phrase.PerSecond(e.Commands), phrase.Percent(e.Handlers)})
		}
		if err := a.PrintTable([]string{"ENTITY", "SHARD", "REGION", "COMMANDS", "HANDLERS"}, rows, "COMMANDS", "HANDLERS"); err != nil {
			return err
		}
	}
	var lines []string
	if len(res.Shards)+len(res.Entities) == 0 {
		lines = append(lines, fmt.Sprintf("nothing has had a command in the last minutes in the %s that answered", phrase.Plural(int(res.Regions), "region")))
	}
	for _, s := range res.Silent {
		lines = append(lines, fmt.Sprintf("what is hot in %s is not known: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
	}
	if lines == nil {
		return nil
	}
	return a.PrintLines(lines)
}
