package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/sharding"
)

func (a *group) dashboardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dashboard", Short: "Print the URL of the dashboard", Args: cobra.NoArgs,
		Long: `Prints the URL at which the active coordinator serves the dashboard. If you give a management token
(--token-file, ROOST_ADMIN_TOKEN), the URL contains a ticket. A browser can exchange the ticket for a session
once, within two minutes. The session can do what the token can do, and lasts 12 hours at most. The token
itself does not reach the browser.`,
		Example: "  roost cluster dashboard\n  xdg-open $(roost cluster dashboard)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			urls, err := a.URLs(a.Admin, "admin", (*cluster.State).Admin)
			if err != nil {
				return err
			}
			options, err := a.AdminOptions()
			if err != nil {
				return err
			}
			found, err := dashboardURL(cmd.Context(), options, urls)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(map[string]string{"url": found})
			}
			return a.PrintLines([]string{found})
		},
	}
}

// dashboardURL returns the URL of the dashboard, with a ticket if there is a token.
func dashboardURL(ctx context.Context, options adminclient.Options, urls []string) (string, error) {
	client := adminclient.NewHTTP(options, 2*time.Second)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	last := fmt.Errorf("%w: no coordinator is known", adminclient.ErrUnreachable)
	for _, base := range urls {
		res, err := request(ctx, client, http.MethodGet, base+app.DashboardPath)
		if err != nil {
			last = fmt.Errorf("%w: %w", adminclient.ErrUnreachable, err)
			continue
		}
		if to, err := url.Parse(res.header.Get("Location")); err == nil && res.status == http.StatusTemporaryRedirect && to.Host != "" {
			base = to.Scheme + "://" + to.Host // of the active one
		} else if res.status != http.StatusOK {
			last = fmt.Errorf("%s%s is answered with HTTP status %d: is it the management listener of a coordinator?", base, app.DashboardPath, res.status)
			continue
		}
		if options.Token == "" {
			return base + app.DashboardPath, nil
		}
		res, err = request(ctx, client, http.MethodPost, base+app.DashboardPath+"ticket")
		var ticket struct{ Ticket string }
		switch {
		case err != nil:
			last = fmt.Errorf("%w: %w", adminclient.ErrUnreachable, err)
		case res.status != http.StatusOK || json.Unmarshal(res.body, &ticket) != nil || ticket.Ticket == "":
			last = fmt.Errorf("%s gives no ticket: HTTP status %d", base, res.status)
		default:
			return base + app.DashboardPath + "#ticket=" + ticket.Ticket, nil
		}
	}
	return "", last
}

// response holds the needed parts of an answer.
type response struct {
	status int
	header http.Header
	body   []byte
}

func request(ctx context.Context, client *http.Client, method, to string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, sharding.MaxPayload))
	return &response{res.StatusCode, res.Header, body}, err
}
