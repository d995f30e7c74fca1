package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) slowCommand() *cobra.Command {
	var req adminv1.SlowRequest
	var timeout app.QueryTimeout
	cmd := &cobra.Command{
		Use: "slow", Short: "List the slowest recent commands", Args: cobra.NoArgs,
		Example: "  roost cluster slow\n  roost cluster slow -n 500 -o json",
		Long: `Asks gateways and regions for the slowest commands that they have kept, and lists them, newest first. Gateways keep
commands of clients. Regions keep the commands that entities send each other, and the commands of reminders, timers
and tells. For every 10 s, each process keeps its 8 slowest commands, so the list may have commands that are not slow.

TOTAL      from the arrival at the gateway, or the sending, to the answer. It is the sum of the next four:
ROUTE      gateway or sender, network, and waiting for a region; all of the time if no region has answered
MAILBOX    waiting for earlier commands of the entity
HANDLER    the entity's code
JOURNAL    until what was stored is durable
TRIES      how often the command was sent to a region. 0: no region got it, or it began in the entity's own region
ORIGIN     client (at which address; behind proxies by http.trusted_proxies); ask or send (and the entity); answer (to
           a send, and its sender); reminder (which); timer; tell: how long a command ran whose sender does not wait
KEPT BY    the gateway or region that has kept it

Gateways and regions that do not answer are named. Gateways are queried at gateway.peer_listen, or at their
management addresses if they have no TLS.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if req.Limit == 0 || req.Limit > mostTop {
				return app.Usage(fmt.Errorf("-n is %d; it must be 1 to %d", req.Limit, mostTop))
			}
			if req.TimeoutMs, err = timeout.Milliseconds(); err != nil {
				return err
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Slow(cmd.Context(), &req)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printSlow(res)
		},
	}
	cmd.Flags().Uint32VarP(&req.Limit, "number", "n", 20, "how many to list")
	timeout.Flag(cmd)
	return cmd
}

func (a *group) printSlow(res *adminv1.SlowResponse) error {
	var rows [][]any
	for _, c := range res.Commands {
		rows = append(rows, []any{
			phrase.TimeOf(c.AtUnixMs), phrase.Named(c.Type + "/" + c.Id), phrase.Named(c.Command), phrase.OrDash(c.Code),
			milliseconds(c.TotalUs), milliseconds(c.RouteUs), milliseconds(c.MailboxUs), milliseconds(c.HandlerUs), milliseconds(c.JournalUs),
			c.Attempts, phrase.Named(phrase.OrDash(c.Region)), phrase.Named(strings.TrimSpace(cmp.Or(c.Origin, "client") + " " + c.From)), phrase.Named(cmp.Or(c.Gateway, c.KeptBy)),
		})
	}
	if len(rows) > 0 {
		header := []string{"ARRIVED", "ENTITY", "COMMAND", "ERROR", "TOTAL", "ROUTE", "MAILBOX", "HANDLER", "JOURNAL", "TRIES", "REGION", "ORIGIN", "KEPT BY"}
		if err := a.PrintTable(header, rows, header[4:10]...); err != nil {
			return err
		}
	}
	var lines []string
	if len(rows) == 0 {
		lines = append(lines, fmt.Sprintf("no command has ended in the last minutes in the %s and the %s that answered", phrase.Plural(int(res.Gateways), "gateway"), phrase.Plural(int(res.Regions), "region")))
	}
	for _, s := range res.Silent {
		lines = append(lines, fmt.Sprintf("the commands of gateway %s are missing: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
	}
	for _, s := range res.SilentRegions {
		lines = append(lines, fmt.Sprintf("the commands that region %s has kept are missing: %s", phrase.Named(s.Region), phrase.Printable(s.Reason)))
	}
	if len(lines) == 0 {
		return nil
	}
	return a.PrintLines(lines)
}

func milliseconds(us int64) string { return fmt.Sprintf("%.1f ms", float64(us)/1e3) }
