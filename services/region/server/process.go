package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/services/region"
)

// lookEvery is the time between two looks at what the process uses.
const lookEvery = time.Second

// process is the last sample of the process.
type process struct {
	at      time.Time
	samples [4]metrics.Sample
	// gc and all are processor seconds of the collector, and of all that the process had. The
	// runtime counts them anew after each collection.
	gc, all float64
	milliGC uint32 // between the last two collections
}

// lookAtProcess tells the control core what the process has and uses.
func (s *Runner) lookAtProcess() {
	p := &s.process
	now := time.Now()
	if s.cfg.LoadInterval == 0 || now.Sub(p.at) < lookEvery {
		return
	}
	p.at = now
	for i, name := range [...]string{"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/total:cpu-seconds", "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"} {
		p.samples[i].Name = name
	}
	metrics.Read(p.samples[:])
	gc, all := p.samples[0].Value.Float64(), p.samples[1].Value.Float64()
	if all > p.all {
		p.milliGC = uint32(1000 * max(0, gc-p.gc) / (all - p.all))
		p.gc, p.all = gc, all
	}
	load := control.NodeLoad{
		Processors: uint32(runtime.GOMAXPROCS(0)), MilliGC: p.milliGC,
		MemoryUsed: p.samples[2].Value.Uint64() - p.samples[3].Value.Uint64(),
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // it changes nothing
		load.MemoryLimit = uint64(limit)
	}
	s.control.step(region.NodeMeasured{Load: load})
}
