package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
)

// DashboardPath is the URL path of the coordinators' dashboard.
const DashboardPath = "/ui/"

// AdminClient returns a client for the cluster that the command is about.
func (a *App) AdminClient() (*adminclient.Client, error) {
	urls, err := a.URLs(a.Admin, "admin", (*cluster.State).Admin)
	if err != nil {
		return nil, err
	}
	options, err := a.AdminOptions()
	if err != nil {
		return nil, err
	}
	return adminclient.NewWith(options, urls...), nil
}

// URLs returns addresses from the flag of that name, the environment, or the state file.
func (a *App) URLs(flag []string, name string, fromState func(*cluster.State) []string) ([]string, error) {
	given := flag
	if value := os.Getenv("ROOST_" + strings.ToUpper(name)); len(given) == 0 && value != "" {
		given = strings.Split(value, ",")
	}
	if len(given) == 0 {
		state, err := a.State("name one with --" + name + " URL")
		if err != nil {
			return nil, err
		}
		return fromState(state), nil
	}
	urls := make([]string, 0, len(given))
	for _, text := range given {
		full := strings.TrimSpace(text)
		if !strings.Contains(full, "://") {
			full = "http://" + full
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usageError{fmt.Errorf("%q is not a URL such as http://localhost:8558", text)}
		}
		urls = append(urls, strings.TrimRight(full, "/"))
	}
	return urls, nil
}

// Token returns a source of the caller's token for gateways, or nil if there is no token.
func (a *App) Token() (func(context.Context) (string, error), error) {
	token, err := a.readToken("ROOST_TOKEN")
	if token == "" || err != nil {
		return nil, err
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// readToken returns the content of --token-file, or of a variable.
func (a *App) readToken(variable string) (string, error) {
	if a.TokenFile == "" {
		return os.Getenv(variable), nil
	}
	text, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("--token-file: the file is empty")
	}
	return token, nil
}

// AdminOptions returns how management listeners are reached.
func (a *App) AdminOptions() (o adminclient.Options, err error) {
	if o.Token, err = a.readToken("ROOST_ADMIN_TOKEN"); err != nil {
		return o, err
	}
	if o.Token == "" { // use roost dev's token, for its own cluster
		if state, err := cluster.ReadState(a.StateFile()); err == nil && len(a.Admin) == 0 && os.Getenv("ROOST_ADMIN") == "" {
			o.Token = state.Token
		}
	}
	o.TLS, err = a.ClientTLS()
	return o, err
}

// ClientTLS returns the TLS configuration for https URLs, or nil for the system's.
func (a *App) ClientTLS() (*tls.Config, error) {
	if a.CA == "" && len(a.Gateway) == 0 && os.Getenv("ROOST_GATEWAY") == "" {
		if state, err := cluster.ReadState(a.StateFile()); err == nil { // use roost dev's CA, for its own cluster
			a.CA = state.CA
		}
	}
	if a.CA == "" && a.Cert == "" && a.Key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		text, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca %s: no certificate in it", a.CA)
		}
	}
	if a.Cert != "" || a.Key != "" {
		own, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert with --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
