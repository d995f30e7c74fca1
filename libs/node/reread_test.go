package node

import (
	"testing"

	"github.com/roost-cluster/roost/libs/node/config"
)

// TestReread: a node that was started with a file has a stage that reads it again.
func TestReread(t *testing.T) {
	file := fileOf(t, "region: {mailbox: 3}\n")
	for _, c := range []struct {
		args   []string
		stages int
	}{{[]string{"--config=" + file}, 1}, {nil, 0}} {
		sources, err := config.Load(newService(), c.args, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{sources: sources}
		n.Reread(nil, func() config.Configured { return newService() }, func(config.Configured) error { return nil })
		if len(n.life.stages) != c.stages {
			t.Errorf("with %q: %d stages", c.args, len(n.life.stages))
		}
	}
}
