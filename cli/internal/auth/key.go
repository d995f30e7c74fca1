package auth

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/node/security"
)

const keyNewHelp = `Makes an API key, or a management token. Its first line of output is the key: give it to
the client, which sends it in the header "Authorization: Bearer KEY". It cannot be shown
again. The second line has the name and the hash of the key: add it to the file of the
gateways that auth.api_keys names, or to the file of management tokens that
management.tokens names. Commands of this client have the principal key:NAME, and so the
audit names an operator. In the file of management tokens, write the word read at the end
of the line if the token is only for requests that change nothing.

To withdraw a key, remove its line. The services reload the files automatically.`

func (a *group) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Make API keys and management tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "new NAME", Short: "Make an API key", Long: keyNewHelp, Args: app.OneName,
		Example: "  roost auth key new billing",
		RunE: func(_ *cobra.Command, args []string) error {
			key, line, err := security.NewAPIKey(args[0])
			if err != nil {
				return app.Usage(err)
			}
			if a.Output == "json" {
				return json.NewEncoder(a.Out).Encode(map[string]string{"key": key, "line": line})
			}
			_, err = fmt.Fprintf(a.Out, "%s\n%s\n", key, line)
			return err
		},
	})
	return cmd
}
