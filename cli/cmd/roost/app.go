package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/roost-cluster/roost/cli/cluster"
)

// app is the state that all commands share.
type app struct {
	out, err io.Writer

	dir     string
	admin   []string
	gateway []string
	output  string
	// tokenFile has what says who calls. It is no flag with the token itself: anybody may list
	// command lines.
	tokenFile string
	// Files for https URLs.
	ca, cert, key string
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// stateFile returns the path of the file in which roost dev describes its cluster.
func (a *app) stateFile() string { return filepath.Join(a.dir, "cluster.json") }

// state reads the state file of roost dev; otherwise says what else to do if there is
// none.
func (a *app) state(otherwise string) (*cluster.State, error) {
	state, err := cluster.ReadState(a.stateFile())
	if errors.Is(err, cluster.ErrNoCluster) {
		err = fmt.Errorf("%w; start one with roost dev, or %s", err, otherwise)
	}
	return state, err
}
