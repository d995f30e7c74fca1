package passivation

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

// tracesEnv names a folder with traces that are too large for the repository:
// w106.trace.gz, 5 MB.
const tracesEnv = "ROOST_TRACES"

// readTrace returns the ids of a trace, in order; nil if the trace is not here.
func readTrace(t *testing.T, name string) (ids []string) {
	t.Helper()
	path := filepath.Join("testdata", "traces", name+".trace.gz")
	file, err := os.Open(path)
	if dir := os.Getenv(tracesEnv); errors.Is(err, fs.ErrNotExist) && dir != "" {
		file, err = os.Open(filepath.Join(dir, name+".trace.gz"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	switch name {
	case "vaultservice":
		for b := range slices.Chunk(raw, 8) {
			ids = append(ids, strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10))
		}
	case "w106":
		for b := range slices.Chunk(raw, 4) {
			ids = append(ids, strconv.FormatUint(uint64(binary.BigEndian.Uint32(b)), 10))
		}
	default:
		// One id per line. A carriage return is part of the id.
		ids = strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	}
	return ids
}

// TestTraces replays recorded accesses to other systems. There must be exactly as many
// activations and passivations as in the reference implementation.
func TestTraces(t *testing.T) {
	traces := map[string][]string{}
	for _, c := range archtest.Vectors(t, "passivation_traces.json") {
		if c.Kind != "trace_replay" {
			continue // results of an offline optimum, or of a trace that is not replayed
		}
		t.Run(c.Name, func(t *testing.T) {
			var v struct {
				Trace        string
				Config       vectorConfig
				Shards       int
				Limit        int `json:"per_region_limit"`
				Accesses     int
				Activations  int
				Passivations int
			}
			c.Decode(t, &v)
			if _, ok := traces[v.Trace]; !ok {
				traces[v.Trace] = readTrace(t, v.Trace)
			}
			ids := traces[v.Trace]
			if ids == nil && v.Trace == "w106" {
				t.Skipf("%s does not name a folder with w106.trace.gz, which is not in the repository", tracesEnv)
			}
			if len(ids) != v.Accesses {
				t.Fatalf("trace %s has %d accesses, want %d", v.Trace, len(ids), v.Accesses)
			}
			r := newRegion(v.Config.strategy(t, v.Limit), v.Shards)
			activations, passivations, most := 0, 0, 0
			for _, id := range ids {
				shard := int(int32(javaHash(id))) % v.Shards
				if _, active := r.active[id]; !active {
					activations++
				}
				passivations += len(r.touch(max(shard, -shard), id))
				most = max(most, len(r.active))
			}
			r.policy.check(t)
			if activations != v.Activations || passivations != v.Passivations || most > v.Limit {
				t.Errorf("%d activations and %d passivations, want %d and %d; %d of %d were active",
					activations, passivations, v.Activations, v.Passivations, most, v.Limit)
			}
		})
	}
}
