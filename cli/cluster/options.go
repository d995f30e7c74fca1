package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Roles of processes. A process is named role-number.
const (
	Coordinator = "coordinator"
	Region      = "region"
	Gateway     = "gateway"
)

// Ports selects how listeners get their ports.
type Ports string

const (
	// Random takes free ports. A process keeps its ports over restarts.
	Random Ports = "random"
	// Fixed takes the well-known ports for what people type: gateways from
	// 8080, coordinators from 25521, their management from 8558. All others
	// are random.
	Fixed Ports = "fixed"
)

// First ports of each kind under Fixed; the next process has the next port.
const (
	gatewayPort     = 8080
	coordinatorPort = 25521
	adminPort       = 8558
)

// Options describes a cluster. The zero value of a field means its default.
type Options struct {
	// Name is the cluster's name; default "dev".
	Name string
	// Coordinators, Regions and Gateways are the numbers of processes to start;
	// at least one coordinator.
	Coordinators, Regions, Gateways int
	// Dir holds journal, lease, logs and addresses. It is made if missing and
	// never removed. One cluster uses it at a time. Required.
	Dir string
	// Journal is the URL of the journal; default a SQLite file in Dir.
	Journal string
	// Lease is the URL of the coordinators' lease; default the Journal if that is in PostgreSQL,
	// otherwise a SQLite file in Dir.
	Lease string
	// TLS has all processes use certificates, with roles, of an authority that is made at the start, and
	// a management token. The certificates and the audits are below Dir/tls.
	TLS bool
	// BinDir holds the binaries coordinator, region and gateway; default: where
	// the running binary is.
	BinDir string
	// RegionBinary is used instead of BinDir/region.
	RegionBinary string
	// Ports is Random or Fixed; default Random.
	Ports Ports
	// LogLevel of the processes: debug, info, warn or error; default info.
	LogLevel string
	// Args are further flags by role, for example "--region.drain_timeout=2s", or by the name of a
	// process. A flag by process name overrides the same flag by role.
	Args map[string][]string
	// Env is added to the environment of the processes, as KEY=value.
	Env []string
	// Address, if set, gives the IP address at which a process listens; default
	// 127.0.0.1 for all.
	Address func(name string) string
	// Start, if set, starts the command of a process where it is to run, such as
	// in a network of its own; default (*exec.Cmd).Start. It is called on one
	// thread, which lives as long as the cluster and must stay as it is.
	Start func(name string, cmd *exec.Cmd) error
	// StartTimeout bounds the time from fork to bound listeners; default 15 s,
	// which only a machine that is overloaded beyond use needs.
	StartTimeout time.Duration
	// StateFile, if set, is kept up to date with what [ReadState] reads, and
	// removed by Close.
	StateFile string
	// Control is written into StateFile for its readers.
	Control Control
	// Changed receives every change of a process, one at a time, unexpected
	// deaths included. It must not call the Cluster.
	Changed func(Process)
}

// complete fills defaults in and refuses what cannot work.
func (o Options) complete() (Options, error) {
	if o.Name == "" {
		o.Name = "dev"
	}
	if o.Lease == "" && (strings.HasPrefix(o.Journal, "postgres://") || strings.HasPrefix(o.Journal, "postgresql://")) {
		o.Lease = o.Journal // they share nothing but the server, and a new lease would not know an old journal
	}
	if o.Lease == "" {
		o.Lease = "sqlite:" + filepath.Join(o.Dir, "lease.db")
	}
	if o.Ports == "" {
		o.Ports = Random
	}
	if o.LogLevel == "" {
		o.LogLevel = "info"
	}
	if o.Address == nil {
		o.Address = func(string) string { return loopback }
	}
	if o.Start == nil {
		o.Start = func(_ string, cmd *exec.Cmd) error { return cmd.Start() }
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 15 * time.Second
	}
	var problems []error
	if o.Coordinators < 1 || o.Coordinators > 9 {
		problems = append(problems, fmt.Errorf("%d coordinators: from 1 to 9 are possible; 2 give one active and one standby", o.Coordinators))
	}
	if o.Regions < 0 || o.Regions > 99 || o.Gateways < 0 || o.Gateways > 99 {
		problems = append(problems, errors.New("at most 99 regions and 99 gateways fit on one machine"))
	}
	if o.Ports != Random && o.Ports != Fixed {
		problems = append(problems, fmt.Errorf("ports %q: write random or fixed", o.Ports))
	}
	if err := new(slog.Level).UnmarshalText([]byte(o.LogLevel)); err != nil {
		problems = append(problems, fmt.Errorf("log level %q: write debug, info, warn or error", o.LogLevel))
	}
	if o.Dir == "" {
		problems = append(problems, errors.New("Dir is empty: name a directory for journal and logs"))
	} else if dir, err := filepath.Abs(o.Dir); err != nil {
		problems = append(problems, err)
	} else if strings.ContainsAny(dir, "?#") {
		problems = append(problems, fmt.Errorf("the directory %q cannot be part of a URL; choose one without ? and #", dir))
	} else {
		o.Dir = dir
	}
	if o.BinDir == "" {
		self, err := os.Executable()
		if err != nil {
			problems = append(problems, fmt.Errorf("BinDir is empty and the running binary is not known: %w", err))
		}
		o.BinDir = filepath.Dir(self)
	}
	if o.RegionBinary == "" {
		o.RegionBinary = filepath.Join(o.BinDir, Region)
	}
	if len(problems) > 0 {
		return o, OptionsError{errors.Join(problems...)}
	}
	return o, errors.Join(o.checkBinaries()...)
}

// OptionsError is a mistake in Options.
type OptionsError struct{ error }

func (e OptionsError) Unwrap() error { return e.error }

// ErrNoBinary is wrapped when a binary is missing or cannot be executed.
var ErrNoBinary = errors.New("binary is missing or cannot be executed")

func (o *Options) checkBinaries() []error {
	var problems []error
	var missing []string
	for _, role := range []string{Coordinator, Region, Gateway} {
		// LookPath of a path with a slash only checks that it can be executed.
		path, err := filepath.Abs(o.binary(role))
		if err == nil {
			_, err = exec.LookPath(path)
		}
		switch {
		case err != nil && o.binary(role) == filepath.Join(o.BinDir, role):
			missing = append(missing, role)
		case err != nil:
			problems = append(problems, fmt.Errorf("%w: the region binary: %w", ErrNoBinary, err))
		case role == Region:
			o.RegionBinary = path
		}
	}
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("%w: no %s in %s; run `make build`, or name the directory that has it",
			ErrNoBinary, strings.Join(missing, ", "), o.BinDir))
	}
	return problems
}

func (o *Options) binary(role string) string {
	if role == Region {
		return o.RegionBinary
	}
	return filepath.Join(o.BinDir, role)
}
