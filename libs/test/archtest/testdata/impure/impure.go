package impure

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os" // want imports os
	"slices"
	"sync" // want imports sync
	"time"
	. "time"

	"path/filepath" // pure: a test of the comment
)

type table map[string]int

func bad(m table) (keys []string) {
	var mutex sync.Mutex
	mutex.Lock()
	_ = os.Args
	go bad(nil)            // want starts a goroutine
	c := make(chan string) // want uses a channel
	c <- ""                // want sends on a channel
	<-c                    // want receives from a channel
	select {}              // want selects
	clock := time.Now      // want uses time.Now
	_ = clock
	_ = Now()              // want uses time.Now
	_ = time.Local         // want uses time.Local
	fmt.Println()          // want uses fmt.Println
	println()              // want uses println
	for range someKey(m) { // want receives from a channel
	}
	_ = filepath.Separator
	_ = rand.IntN(3)     // want uses math/rand/v2.IntN
	time.Sleep(1)        // want uses time.Sleep
	for key := range m { // want ranges over a map
		keys = append(keys, key)
	}
	for key := range maps.Keys(m) { // want iterates over a map
		keys = append(keys, key)
	}
	// order-free:
	for range m { // want ranges over a map
	}
	// order-free: of no use // want has a comment that exempts nothing
	keys = nil
	maps.DeleteFunc(m, func(string, int) bool { return true }) // want iterates over a map
	return keys
}

func someKey[M ~map[K]V, K comparable, V any](m M) (c chan K) { // want uses a channel
	for k := range m { // want ranges over a map
		_ = k
	}
	return c
}

func good(m table, source *rand.Rand, now time.Time) (keys []string) {
	var address netip.Addr
	_ = address
	_ = source.IntN(3)
	_ = now.Sub(time.Unix(0, 0))
	_ = rand.New(rand.NewPCG(1, 2))
	for key := range m { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	// order-free: a sum
	for _, n := range m {
		_ = n
	}
	return slices.Sorted(maps.Keys(m))
}
