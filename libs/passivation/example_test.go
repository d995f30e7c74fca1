package passivation_test

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
)

func Example() {
	strategy, err := passivation.Parse("lru limit=2 idle=2m")
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	p := passivation.New(strategy, 1024, &passivation.EntityTable{})
	p.Open(17, nil)
	for e := passivation.Entity(1); e <= 3; e++ {
		fmt.Println("passivate", p.Touched(17, e, 0, nil)) // before the command
		p.MarkIdle(e, now, nil)                            // after it
	}
	next := p.NextExpiry()
	fmt.Println(next.Sub(now), "passivate", p.TakeExpired(next, nil))
	// Output:
	// passivate []
	// passivate []
	// passivate [1]
	// 2m0s passivate [2 3]
}
