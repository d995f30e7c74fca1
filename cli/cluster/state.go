package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/roost-cluster/roost/libs/atomicfile"
)

// ErrLocked is wrapped when another process uses a file or directory.
var ErrLocked = errors.New("in use by another process")

// ErrNoCluster is wrapped when a state file is not there: nothing runs.
var ErrNoCluster = errors.New("no cluster is running here")

// State describes a cluster to other processes; its launcher writes it to a file.
type State struct {
	Cluster string `json:"cluster"`
	// PID of the launcher.
	PID int `json:"pid"`
	// Dir is the Options.Dir of the cluster.
	Dir string `json:"dir"`
	// Lease is the URL of the coordinators' lease.
	Lease string `json:"lease"`
	// Journal is the URL of the journal, and Region the binary of the regions.
	Journal string `json:"journal"`
	Region  string `json:"region"`
	// Token is the management token; empty: none is needed.
	Token string `json:"token,omitempty"`
	// CA is the file with the authority of the gateways' certificates; empty: they serve plain TCP.
	CA string `json:"ca,omitempty"`
	// Control is the address for orders to the launcher.
	Control   Control   `json:"control"`
	Processes []Process `json:"processes"`
}

// Control is the address for orders to a launcher: a base URL, and the token
// that it requires. Empty if it takes none.
type Control struct {
	URL   string `json:"url,omitempty"`
	Token string `json:"token,omitempty"`
}

// Gateways are the base URLs of the public API.
func (s *State) Gateways() []string { return urls(s.Processes, Gateway, s.CA != "") }

// Admin are the base URLs of the coordinators' management.
func (s *State) Admin() []string { return urls(s.Processes, Coordinator, false) }

// Diagnosis are the base URLs of the processes that explain entities: coordinators and gateways.
func (s *State) Diagnosis() []string {
	all := s.Admin()
	for _, p := range s.Processes {
		if p.Role == Gateway && p.Management != "" {
			all = append(all, "http://"+p.Management)
		}
	}
	return all
}

// urls returns the base URLs of all started processes of a role. secure is true if gateways serve TLS;
// management is on loopback, and plain.
func urls(processes []Process, role string, secure bool) []string {
	var found []string
	for _, p := range processes {
		switch {
		case p.Role != role:
		case role == Gateway && secure:
			found = append(found, "https://"+p.Service)
		case role == Gateway:
			found = append(found, "http://"+p.Service)
		default:
			found = append(found, "http://"+p.Management)
		}
	}
	return found
}

// ReadState reads a state file. ErrNoCluster is wrapped if there is none.
func ReadState(path string) (*State, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s", ErrNoCluster, path)
	}
	if err != nil {
		return nil, err
	}
	var state State
	if err := json.Unmarshal(content, &state); err != nil {
		return nil, fmt.Errorf("%s is not the state of a cluster: %w", path, err)
	}
	return &state, nil
}

// write replaces the file at once. Only its owner may read it: it holds the
// token of the control.
func (s *State) write(path string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, append(content, '\n'), 0o600)
}
