package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// readyTimeout bounds the time from start to the first answered command:
	// many times what a loaded machine needs.
	readyTimeout = time.Minute
	// patienceFor is the time after which a start prints what it waits for.
	patienceFor = 5 * time.Second
	// drainTimeout bounds the orderly stop; then the remaining processes are killed,
	// which loses nothing that is durable.
	drainTimeout = 30 * time.Second
	// stableAfter is the time after which a process that does not answer is declared
	// down: on one machine, without a network in between, it is dead. Until then no
	// other member can leave gracefully.
	stableAfter = "--gossip.stable_after=3s"
)

const devHelp = `Starts a cluster of real processes on this machine and keeps it up until Ctrl-C,
which drains and stops everything; a second Ctrl-C ends everything at once.

Journal and logs are below --dir and are removed at the end, or with --data in that
directory and kept: a later start finds the state, and appends to the logs. With --journal,
the journal is at that URL.

With --tls, processes and clients use certificates, each process only in its role, and what
changes the cluster needs the management token. Other roost commands find both by --dir.

Each process gets this command's environment, and takes from it the keys that it has:
ROOST_REGION_PASSIVATION="Cart=idle=10m" roost dev

--set gives one process a key that the others do not have:
roost dev --set region-1.node.zone=a --set region-2.node.zone=b`

// devOptions are the flags of roost dev.
type devOptions struct {
	regions, gateways, coordinators int
	region, data, bin               string
	journal, lease                  string
	tls                             bool
	ports, logLevel                 string
	versions                        map[string]string
	set                             []string
}

func (a *group) devCommand() *cobra.Command {
	o := devOptions{}
	cmd := &cobra.Command{
		Use: "dev", Short: "Start a cluster on this machine", Long: devHelp, Args: cobra.NoArgs,
		Example: "  roost dev\n  roost dev --region ./bin/my-region --data ./roost-data",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// All termination signals; main's context ends at the first one.
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			return a.dev(context.WithoutCancel(cmd.Context()), o, signals)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.regions, "regions", 3, "number of regions")
	flags.IntVar(&o.gateways, "gateways", 2, "number of gateways")
	flags.IntVar(&o.coordinators, "coordinators", 2, "number of coordinators; one is active, the others stand by")
	flags.StringVar(&o.region, "region", "", "your own region binary; default: one with a Counter")
	flags.StringToStringVar(&o.versions, "app.version", nil, "version of the code of one region, for example region-2=v2; may be given several times; default: the binary's version")
	flags.StringArrayVar(&o.set, "set", nil, "key of one process, such as region-2.region.capacity=5; may be given several times")
	flags.StringVar(&o.data, "data", "", "keep journal and logs in this directory")
	flags.StringVar(&o.journal, "journal", os.Getenv("ROOST_JOURNAL_URL"), "URL of the journal, such as postgres://roost@127.0.0.1/roost; env ROOST_JOURNAL_URL, for one with a password; default: a SQLite file")
	flags.BoolVar(&o.tls, "tls", false, "make certificates and a management token for this cluster, and use them everywhere")
	flags.StringVar(&o.lease, "lease", "", "URL of the coordinators' lease, such as etcd://127.0.0.1:2379/roost; default: the journal, if that is in PostgreSQL, or a SQLite file")
	flags.StringVar(&o.bin, "bin", "", "directory of the binaries; default: the directory of roost")
	flags.StringVar(&o.ports, "ports", string(cluster.Fixed), "fixed (API from 8080, admin from 8558) or random")
	flags.StringVar(&o.logLevel, "log.level", "info", "of the processes' log files: debug, info, warn or error")
	cmd.AddCommand(a.devListCommand(), a.orderCommand("kill", "Kill a process, as a crash would",
		"Kills a process of the dev cluster."),
		a.orderCommand("stop", "Stop a process gracefully",
			"Stops a process of the dev cluster gracefully; a region drains first."),
		a.orderCommand("start", "Start a stopped process again",
			"Starts a process of the dev cluster again, with the same name and addresses."))
	return cmd
}

// args returns the flags of the processes, by role or name.
func (o *devOptions) args() (map[string][]string, error) {
	args := map[string][]string{cluster.Coordinator: {stableAfter}, cluster.Region: {stableAfter}}
	for name, v := range o.versions {
		if !o.has(name) || !strings.HasPrefix(name, cluster.Region) {
			return nil, fmt.Errorf("--app.version %s=%s: there is no such region; write it like region-%d=v2", name, v, o.regions)
		}
		if err := sharding.CheckText("--app.version "+name, v, sharding.MaxTypeLen); err != nil {
			return nil, err
		}
		args[name] = append(args[name], "--app.version="+v)
	}
	for _, text := range o.set {
		name, setting, _ := strings.Cut(text, ".")
		key, _, ok := strings.Cut(setting, "=")
		if ok && key != "" && !o.has(name) {
			return nil, fmt.Errorf("--set %s: this cluster has no process %q; processes are numbered from 1, such as region-%d", text, name, o.regions)
		}
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %s: write PROCESS.KEY=VALUE, such as region-%d.region.capacity=5", text, o.regions)
		}
		if !o.tls && slices.Contains([]string{"tls.cert", "tls.key", "tls.ca", "public.cert", "public.key"}, key) {
			return nil, fmt.Errorf("--set %s: roost dev talks to its processes itself and would need the same authority; use --tls, or start the processes yourself (deploy/README.md, Binaries)", text)
		}
		args[name] = append(args[name], "--"+setting)
	}
	return args, nil
}

// has reports whether the cluster has a process with this name.
func (o *devOptions) has(name string) bool {
	role, n, _ := strings.Cut(name, "-")
	i, err := strconv.Atoi(n)
	most := map[string]int{cluster.Coordinator: o.coordinators, cluster.Region: o.regions, cluster.Gateway: o.gateways}[role]
	return err == nil && i >= 1 && i <= most && name == fmt.Sprintf("%s-%d", role, i)
}

// dev runs a cluster until a signal comes.
func (a *group) dev(ctx context.Context, o devOptions, signals <-chan os.Signal) error {
	if o.regions < 1 || o.gateways < 1 {
		return app.Usage(errors.New("a dev cluster needs at least one region and one gateway"))
	}
	args, err := o.args()
	if err != nil {
		return app.Usage(err)
	}
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return fmt.Errorf("--dir %s cannot be used: %w", a.Dir, err)
	}
	unlock, err := cluster.Lock(filepath.Join(a.Dir, "dev.lock"))
	if errors.Is(err, cluster.ErrLocked) {
		return fmt.Errorf("a dev cluster is running already in %s; stop it, or use another --dir and --ports random", a.Dir)
	} else if err != nil {
		return err
	}
	defer unlock()
	data, cleanUp, err := a.dataDir(o.data)
	if err != nil {
		return err
	}
	defer cleanUp()

	d := &devCluster{App: a.App, begin: time.Now(), warned: warnings{}}
	control, err := newControl()
	if err != nil {
		return err
	}
	defer control.close()
	starting, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %s", readyTimeout))
	defer cancel()
	finished := make(chan error, 1)
	go func() { finished <- d.start(starting, o, args, data, control) }()
	select {
	case err = <-finished:
	case <-signals:
		cancel()
		<-finished
		err = app.ErrInterrupted
	}
	if err != nil {
		d.kill()
		return explainDev(err)
	}
	d.up.Store(true)
	control.open(d.cluster)
	if err := d.announce(o); err != nil {
		d.kill()
		return err
	}
	look := time.NewTicker(patienceFor)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			d.warn(ctx)
		case <-signals:
			return d.stop(ctx, signals)
		}
	}
}

// dataDir returns the directory for the cluster's files, and a function to call at the
// end. It removes the directories of clusters that were killed.
func (a *group) dataDir(data string) (dir string, cleanUp func(), err error) {
	if data != "" {
		return data, func() {}, nil
	}
	left, _ := filepath.Glob(filepath.Join(a.Dir, "tmp-*"))
	for _, old := range left {
		_ = os.RemoveAll(old)
	}
	if dir, err = os.MkdirTemp(a.Dir, "tmp-"); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// explainDev adds to errors of a start what to do.
func explainDev(err error) error {
	var port *cluster.PortError
	var options cluster.OptionsError
	switch {
	case errors.As(err, &options):
		return app.Usage(err)
	case errors.As(err, &port):
		return fmt.Errorf("port %d, meant for %s, is in use by another program; stop that program, or use --ports random", port.Port, port.Process)
	case errors.Is(err, cluster.ErrNoBinary):
		return fmt.Errorf("%w (--bin DIR, --region FILE)", err)
	case errors.Is(err, cluster.ErrLocked):
		return fmt.Errorf("another cluster uses this --data directory: %w", err)
	}
	return err
}

// devCluster is the cluster of roost dev.
type devCluster struct {
	*app.App
	begin   time.Time
	cluster *cluster.Cluster
	proof   proof
	active  string
	term    uint32
	up      atomic.Bool // announced
	warned  warnings
}

// warnings are the current warnings of coordinators. Each is printed when it begins.
type warnings map[string]bool

// begun returns the warnings in list that began since the last call.
func (w warnings) begun(list []cluster.Warning) (begun []cluster.Warning) {
	now := warnings{}
	for _, x := range list {
		key := x.Process + " " + x.Check // the text may have a time in it
		if now[key] = true; !w[key] {
			begun = append(begun, x)
		}
	}
	clear(w)
	maps.Copy(w, now)
	return begun
}

// warn prints what coordinators warn of, such as a journal that they cannot read.
func (d *devCluster) warn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patienceFor)
	defer cancel()
	for _, w := range d.warned.begun(d.cluster.Warnings(ctx, cluster.Coordinator)) {
		fmt.Fprintf(d.Err, "%s warns: %s: %s\n", w.Process, w.Check, w.Text)
	}
}

// start starts all processes, and returns when a command has been answered through every
// gateway.
func (d *devCluster) start(ctx context.Context, o devOptions, args map[string][]string, data string, control *control) error {
	c, err := cluster.Start(ctx, cluster.Options{
		Coordinators: o.coordinators, Regions: o.regions, Gateways: o.gateways,
		Dir: data, Journal: o.journal, Lease: o.lease, TLS: o.tls, BinDir: o.bin, RegionBinary: o.region, Ports: cluster.Ports(o.ports), LogLevel: o.logLevel,
		Args:      args,
		Env:       devEnv(),
		StateFile: d.StateFile(), Control: control.at(), Changed: d.changed,
	})
	if err != nil {
		return err
	}
	d.cluster = c
	if err := d.ready(ctx); err != nil {
		return err
	}
	if d.active, d.term, err = c.Active(ctx); err != nil {
		return err
	}
	d.proof, err = prove(ctx, c)
	return err
}

// devEnv returns settings that only a cluster on a developer's machine should have: operators see what entities
// store, and try commands in the dashboard. The environment of this command takes precedence.
func devEnv() (env []string) {
	for _, key := range []string{"ROOST_COORDINATOR_SHOW_PAYLOADS", "ROOST_COORDINATOR_TRY_COMMANDS", "ROOST_REGION_SHOW_PAYLOADS"} {
		if _, set := os.LookupEnv(key); !set {
			env = append(env, key+"=true")
		}
	}
	return env
}

// ready waits until all processes are ready, and regularly prints what it waits for.
func (d *devCluster) ready(ctx context.Context) error {
	for {
		patience, cancel := context.WithTimeout(ctx, patienceFor)
		err := d.cluster.Ready(patience)
		late := patience.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late {
			return err
		}
		fmt.Fprintf(d.Err, "still waiting; %s\n", strings.Replace(err.Error(), ": "+context.DeadlineExceeded.Error(), ":", 1))
		d.warn(ctx)
	}
}

// changed prints deaths and ends of processes once the cluster is up; before that, start
// returns an error. It is called by the cluster and must not call it.
func (d *devCluster) changed(p cluster.Process) {
	if !d.up.Load() {
		return
	}
	switch p.State {
	case cluster.Stopped:
		fmt.Fprintf(d.Err, "  %s stopped\n", p.Name)
	case cluster.Killed:
		fmt.Fprintf(d.Err, "  %s killed\n", p.Name)
	case cluster.Died:
		fmt.Fprintf(d.Err, "%s died (%s); start it again: roost dev start %s\n", p.Name, p.Reason, p.Name)
		for _, line := range p.LastLines {
			fmt.Fprintf(d.Err, "  | %s\n", line)
		}
	}
}

// stop ends the processes gracefully, or at once at a second signal.
func (d *devCluster) stop(ctx context.Context, signals <-chan os.Signal) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	interrupted := make(chan struct{})
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			close(interrupted)
			cancel()
		case <-done:
		}
	}()
	shards := 0
	if table, err := adminclient.New(d.cluster.Admin()...).Shards(ctx, "", ""); err == nil {
		shards = len(table.Shards)
	}
	fmt.Fprintf(d.Err, "draining %s and stopping everything; Ctrl-C again ends it at once\n", phrase.Plural(shards, "shard"))
	err := d.cluster.Close(ctx)
	close(done)
	select {
	case <-interrupted:
		return app.ErrInterrupted
	default:
	}
	if err == nil {
		fmt.Fprintf(d.Err, "stopped in %.1f s\n", time.Since(begin).Seconds())
	}
	return err
}

// kill ends the processes at once, after a failed start.
func (d *devCluster) kill() {
	if d.cluster == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.cluster.Close(ctx) // the error only reports that processes were killed
}

// Ready is the output of roost dev -o json, printed once.
type Ready struct {
	API       string            `json:"api"`
	Gateways  []string          `json:"gateways"`
	Admin     []string          `json:"admin"`
	Dashboard string            `json:"dashboard"`
	Active    string            `json:"active"`
	Term      uint32            `json:"term"`
	Types     []string          `json:"types"`
	State     string            `json:"state"`
	Data      string            `json:"data,omitempty"`
	PID       int               `json:"pid"`
	ReadyMS   int64             `json:"ready_ms"`
	Processes []cluster.Process `json:"processes"`
}

// announce prints the addresses.
func (d *devCluster) announce(o devOptions) error {
	took := time.Since(d.begin)
	gateways, admin := d.cluster.Gateways(), d.cluster.Admin()
	if d.JSON() {
		return d.PrintJSON(Ready{
			API: gateways[0], Gateways: gateways, Admin: admin, Dashboard: admin[0] + app.DashboardPath, Active: d.active, Term: d.term, Types: d.proof.types,
			State: d.StateFile(), Data: o.data, PID: os.Getpid(), ReadyMS: took.Milliseconds(), Processes: d.cluster.Processes(),
		})
	}
	journal := "in " + o.data
	switch {
	case o.journal != "":
		journal = backendurl.Redact(o.journal)
	case o.data == "":
		journal = "removed at the end, unless roost dev --data ./roost-data"
	}
	api := gateways[0]
	var text strings.Builder
	line := func(label, value, more string) {
		fmt.Fprintln(&text, strings.TrimRight(fmt.Sprintf("  %-11s %-32s %s", label, value, more), " "))
	}
	fmt.Fprintf(&text, "dev cluster: %s, %s, %s\n\n", phrase.Plural(o.coordinators, "coordinator"), phrase.Plural(o.regions, "region"), phrase.Plural(o.gateways, "gateway"))
	line("API:", local(api), "POST /v1/{type}/{id}/{command}")
	for _, other := range gateways[1:] {
		line("", local(other), "")
	}
	for i, p := range d.cluster.Processes()[:len(admin)] {
		label, role := "", "standby"
		if i == 0 {
			label = "Admin:"
		}
		if p.Name == d.active {
			role = fmt.Sprintf("active, term %d", d.term)
		}
		line(label, local(admin[i]), p.Name+", "+role)
	}
	hint := "the cluster in a browser"
	if o.tls {
		hint = "with a ticket: roost cluster dashboard"
	}
	line("Dashboard:", local(admin[0])+app.DashboardPath, hint)
	line("Metrics:", local(admin[0])+"/metrics", "each process has its own: roost dev ps")
	line("Journal:", journal, "")
	line("Logs:", filepath.Dir(d.cluster.Processes()[0].Log), "")
	line("Entities:", strings.Join(d.proof.types, ", "), "")
	if o.tls {
		line("TLS:", d.cluster.TLSDir(), "certificates, management token, audits; roost finds them")
	}
	lacks := "one machine"
	switch asks := d.proof.asks; {
	case o.tls && !asks:
		lacks = "clients need no token, one machine"
	case !o.tls && asks:
		lacks = "no TLS, one machine"
	case !o.tls:
		lacks = "no TLS, no authentication, one machine"
	}
	fmt.Fprintf(&text, "\nReady in %.2f s. Try:  %s\n", took.Seconds(), d.proof.curl(local(api)))
	fmt.Fprintf(&text, "Not for production: %s. Ctrl-C stops it.\n", lacks)
	_, err := fmt.Fprint(d.Out, text.String())
	return err
}

// local writes an address with localhost.
func local(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }
