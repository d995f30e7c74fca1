package main

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
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// dashboardPath is where coordinators serve the dashboard.
const dashboardPath = "/ui/"

// adminClient returns a client for the cluster that the command is about.
func (a *app) adminClient() (*adminclient.Client, error) {
	urls, err := a.urls(a.admin, "admin", (*cluster.State).Admin)
	if err != nil {
		return nil, err
	}
	options, err := a.adminOptions()
	if err != nil {
		return nil, err
	}
	return adminclient.NewWith(options, urls...), nil
}

// urls returns addresses from the flag of that name, the environment, or the state file.
func (a *app) urls(flag []string, name string, fromState func(*cluster.State) []string) ([]string, error) {
	given := flag
	if value := os.Getenv("ROOST_" + strings.ToUpper(name)); len(given) == 0 && value != "" {
		given = strings.Split(value, ",")
	}
	if len(given) == 0 {
		state, err := a.state("name one with --" + name + " URL")
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
