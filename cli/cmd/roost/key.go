package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/node/auth"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

const keyNewHelp = `Makes an API key, or a management token. Its first line of output is the key: give it to
the client, which sends it in the header "Authorization: Bearer KEY". Nobody can show it
again. The second line has the name and the hash of the key: add it to the file of the
gateways that auth.api_keys names, or to the file of management tokens that
management.tokens names. Commands of this client have the principal key:NAME, and so the
audit names an operator. In the file of management tokens, write the word read at the end
of the line if the token is only for requests that change nothing.

To withdraw a key, remove its line. The services read the files again by themselves.`

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Make API keys for clients of gateways, and management tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "new NAME", Short: "Make an API key", Long: keyNewHelp, Args: oneName,
		Example: "  roost key new billing",
		RunE: func(_ *cobra.Command, args []string) error {
			key, line, err := auth.NewAPIKey(args[0])
			if err != nil {
				return usageError{err}
			}
			if a.output == "json" {
				return json.NewEncoder(a.out).Encode(map[string]string{"key": key, "line": line})
			}
			_, err = fmt.Fprintf(a.out, "%s\n%s\n", key, line)
			return err
		},
	})
	return cmd
}

// token returns what says who calls a gateway, or nil if nothing does.
func (a *app) token() (func(context.Context) (string, error), error) {
	token, err := a.readToken("ROOST_TOKEN")
	if token == "" || err != nil {
		return nil, err
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// readToken returns the content of --token-file, or of a variable.
func (a *app) readToken(variable string) (string, error) {
	if a.tokenFile == "" {
		return os.Getenv(variable), nil
	}
	text, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("--token-file: the file is empty")
	}
	return token, nil
}

// adminOptions returns how management listeners are reached.
func (a *app) adminOptions() (o adminclient.Options, err error) {
	if o.Token, err = a.readToken("ROOST_ADMIN_TOKEN"); err != nil {
		return o, err
	}
	if o.Token == "" { // that of roost dev, for its own cluster
		if state, err := cluster.ReadState(a.stateFile()); err == nil && len(a.admin) == 0 && os.Getenv("ROOST_ADMIN") == "" {
			o.Token = state.Token
		}
	}
	o.TLS, err = a.clientTLS()
	return o, err
}

// clientTLS returns what https URLs are asked with, or nil for what the system has.
func (a *app) clientTLS() (*tls.Config, error) {
	if a.ca == "" && len(a.gateway) == 0 && os.Getenv("ROOST_GATEWAY") == "" {
		if state, err := cluster.ReadState(a.stateFile()); err == nil { // that of roost dev, for its own cluster
			a.ca = state.CA
		}
	}
	if a.ca == "" && a.cert == "" && a.key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		text, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca %s: no certificate in it", a.ca)
		}
	}
	if a.cert != "" || a.key != "" {
		own, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--cert with --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
