// Package app has what the commands share: how they reach the cluster, what they print, their errors and exit codes, and
// how requests and listings are repeated until they are complete.
//
// It has no command of its own, and does not write the texts about what a cluster answers: package phrase does.
package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/roost-cluster/roost/cli/cluster"
)

// App is the state that all commands share.
type App struct {
	Out, Err io.Writer

	Dir     string
	Admin   []string
	Gateway []string
	Output  string
	// TokenFile is the file with the caller's token. There is no flag for the token itself: other
	// users can list command lines.
	TokenFile string
	// Files for https URLs.
	CA, Cert, Key string
}

// EnvOr returns the value of an environment variable, or another text if it is not set.
func EnvOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// StateFile returns the path of the file in which roost dev describes its cluster.
func (a *App) StateFile() string { return filepath.Join(a.Dir, "cluster.json") }

// State reads the state file of roost dev. If there is none, the error suggests otherwise as the
// alternative to starting roost dev.
func (a *App) State(otherwise string) (*cluster.State, error) {
	state, err := cluster.ReadState(a.StateFile())
	if errors.Is(err, cluster.ErrNoCluster) {
		err = fmt.Errorf("%w; start one with roost dev, or %s", err, otherwise)
	}
	return state, err
}
