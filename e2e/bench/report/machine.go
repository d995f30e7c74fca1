package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine describes the machine of a report.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	// Load is the load average of the last minute before the run.
	Load string `json:"load"`
	// Fsync is the median time of writing 4 KiB to the end of a file and
	// calling fsync, where the journals are.
	Fsync time.Duration `json:"fsync_ns"`
}

// ThisMachine describes this machine, as far as it is known.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Load: "unknown"}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer func() { _ = f.Close() }()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(raw), " ")
	}
	return m
}

// String describes the machine in one line.
func (m Machine) String() string {
	s := fmt.Sprintf("%d processors (%s), %s, %s, load %s before the run", m.Cores, m.CPU, m.OS, m.Go, m.Load)
	if m.Fsync > 0 {
		s += ", fsync of 4 KiB " + Duration(m.Fsync)
	}
	return s
}

// Busy reports whether other work kept the machine busy when the run began.
func (m Machine) Busy() bool {
	load, err := strconv.ParseFloat(m.Load, 64)
	return err == nil && load > float64(m.Cores)
}

// busy is the warning in the report of such a run.
const busy = "The machine was busy with other work: rates, latencies and ratios are rough, processor times less so."
