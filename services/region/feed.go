package region

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// The region's router has a copy of the route table of its own, because a refusal may teach it
// a row before the coordinator does. This file feeds it with what the control core learns.

// feeding records the coordinator that the router knows. The router receives nothing before on is set: a region
// whose entities send no commands has no second copy.
type feeding struct {
	on     bool
	active string // coordinator
}

// feedRouter tells the router everything, and from now on every change.
func (c *ControlCore) feedRouter() {
	if c.feeding.on {
		return
	}
	c.feeding.on = true
	c.feed(c.table.Delta(sharding.Version{}))
}

// feed tells the router what the table has gained, and which coordinator is active.
func (c *ControlCore) feed(d sharding.TableDelta) {
	//mutant:do router-fed if !d.Full { return }
	if !c.feeding.on {
		return
	}
	c.feeding.active, _ = c.watcher.Active()
	c.emit(Feed{Delta: d, Active: c.feeding.active})
}

// feedActive tells the router of another active coordinator.
func (c *ControlCore) feedActive() {
	if active, _ := c.watcher.Active(); c.feeding.on && active != c.feeding.active {
		c.feed(sharding.TableDelta{Version: c.table.Version()})
	}
}
