package phi_test

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/phi"
)

// A peer sends a heartbeat every second until it dies.
func Example() {
	d := phi.New(phi.DefaultConfig())
	now := time.Unix(0, 0)
	for range 30 {
		now = now.Add(time.Second)
		d.Heartbeat(now)
	}
	for _, silence := range []time.Duration{time.Second, 4 * time.Second, 4500 * time.Millisecond, 5 * time.Second} {
		at := now.Add(silence)
		fmt.Printf("%4v: phi %.1f, available: %v\n", silence, d.Phi(at), d.Available(at))
	}
	// Output:
	//   1s: phi 0.0, available: true
	//   4s: phi 0.3, available: true
	// 4.5s: phi 7.3, available: true
	//   5s: phi 37.6, available: false
}

// The same peer, judged by a deadline.
func ExampleNewDeadline() {
	d := phi.NewDeadline(phi.DeadlineConfig{Interval: time.Second, Pause: 3 * time.Second})
	now := time.Unix(0, 0)
	d.Heartbeat(now)
	fmt.Println(d.Available(now.Add(3999 * time.Millisecond)))
	fmt.Println(d.Available(now.Add(4 * time.Second)))
	// Output:
	// true
	// false
}

// A process that was suspended has received no heartbeats. That is not held against its
// peers.
func ExampleDetector_Restart() {
	d := phi.New(phi.CloudConfig())
	now := time.Unix(0, 0)
	d.Heartbeat(now)
	now = now.Add(time.Minute)
	fmt.Println(d.Available(now))
	d.Restart(now)
	fmt.Println(d.Available(now))
	// Output:
	// false
	// true
}
