package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

// peerTimeout bounds one run of a program. A load takes a second.
const peerTimeout = 3 * time.Minute

// comparison is a measure that is taken of Roost and of its peers. It has the name of the measure.
type comparison struct {
	name    string
	section string
	callers string
}

var comparisons = []comparison{
	{"local-asks", "peers: asks within a process", "1,64"},
	{"remote-asks", "peers: asks between two processes", "1,64,256"},
	{"local-tells", "peers: tells within a process", "1"},
	{"remote-tells", "peers: tells between two processes", "1"},
	{"local-activation", "peers: new entities, within a process", "64"},
	{"remote-activation", "peers: new entities, between two processes", "64"},
	{"idle", "peers: memory of idle entities", "64"},
	{"failover", "peers: one of three processes killed", "64"},
	{"durable", "peers: durable updates, SQLite", "1,64"},
}

// peerSuites returns a suite for each comparison.
func peerSuites() (all []suite) {
	for _, c := range comparisons {
		all = append(all, suite{c.name, func(r *run) error { return r.comparePeers(c) }})
	}
	return all
}

// comparePeers runs the programs in turns, as often as there are rounds. Each run is a process of its own, so that
// no program is there while another one is measured. Each round begins with another program.
func (r *run) comparePeers(c comparison) error {
	all := figures{}
	failed := map[string]error{}
	programs := append([][]string{append(append([]string{}, r.Roost...), "-bin", r.Bin)}, r.Peers...)
	for round := range r.Rounds {
		for i := range programs {
			program := programs[(i+round)%len(programs)]
			if failed[key(program)] != nil {
				continue
			}
			got, err := r.peer(c, program)
			if err != nil && (i+round)%len(programs) == 0 {
				return err
			}
			failed[key(program)] = err // a peer that fails keeps the others from nothing
			all.add(got)
		}
	}
	for _, program := range programs[1:] {
		if err := failed[key(program)]; err != nil {
			r.report.Skipped = append(r.report.Skipped, fmt.Sprintf("%s: %v", c.section, err))
		}
	}
	for _, row := range all.rows(c.section) {
		r.add(row)
	}
	return nil
}

// key tells programs apart.
func key(program []string) string { return strings.Join(program, " ") }

// peer runs a program once.
func (r *run) peer(c comparison, program []string) ([]peer.Figure, error) {
	dir, err := os.MkdirTemp(r.Dir, c.name+"-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, peerTimeout)
	defer cancel()
	entities := r.Sizes.Entities
	switch c.name {
	case "durable":
		entities = r.Sizes.Accounts
	case "failover":
		entities = r.Sizes.Members
	}
	args := append(append([]string{}, program[1:]...), "-measure", c.name, "-callers", c.callers, "-length", r.Length.String(), "-dir", dir,
		"-entities", fmt.Sprint(entities), "-idle", fmt.Sprint(r.Sizes.Idle))
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program[0], args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), r.Env...), &said
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(program[0]), err, lines[len(lines)-1])
	}
	var got []peer.Figure
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var f peer.Figure
		if err := d.Decode(&f); err != nil {
			return nil, fmt.Errorf("%s: %w", program[0], err)
		}
		got = append(got, f)
	}
	return got, errors.Join(os.RemoveAll(dir), ctx.Err())
}

// figures holds the figures of all rounds, by measure and name.
type figures []struct {
	measure string
	names   []string
	rounds  map[string][]peer.Figure
}

func (all *figures) add(got []peer.Figure) {
	for _, f := range got {
		at := 0
		for at < len(*all) && (*all)[at].measure != f.Measure {
			at++
		}
		if at == len(*all) {
			*all = append(*all, struct {
				measure string
				names   []string
				rounds  map[string][]peer.Figure
			}{f.Measure, nil, map[string][]peer.Figure{}})
		}
		m := &(*all)[at]
		if m.rounds[f.Name] == nil {
			m.names = append(m.names, f.Name)
		}
		m.rounds[f.Name] = append(m.rounds[f.Name], f)
	}
}

// rows returns the medians.
func (all figures) rows(section string) (rows []report.Row) {
	for _, m := range all {
		for _, name := range m.names {
			of := func(value func(*peer.Figure) float64) float64 {
				var vs []float64
				for i := range m.rounds[name] {
					vs = append(vs, value(&m.rounds[name][i]))
				}
				return measure.Median(vs)
			}
			rows = append(rows, report.Row{
				Section: section, Measure: m.measure + ": " + name, Unit: m.rounds[name][0].Unit,
				Value: of(func(f *peer.Figure) float64 { return f.Value }),
				P50:   time.Duration(of(func(f *peer.Figure) float64 { return float64(f.P50) })),
				P99:   time.Duration(of(func(f *peer.Figure) float64 { return float64(f.P99) })),
				CPU:   time.Duration(of(func(f *peer.Figure) float64 { return float64(f.CPU) })),
			})
		}
	}
	return rows
}
