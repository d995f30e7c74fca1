package diagnosis

// Limits that are nearly reached.

func (x *exam) memory() {
	names := x.which(func(p *Setup) bool {
		return p.MemoryLimit > 0 && float64(p.MemoryUsed) >= nearMemory*float64(p.MemoryLimit)
	})
	x.sayOf(names, Warning,
		"give them more memory, or passivate earlier (docs/using/memory.md)",
		"these processes use more than 90 % of their memory limit")
}

func (x *exam) unlimited() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Role == "region" && p.MemoryLimit == 0 }), Note,
		"set GOMEMLIMIT, or a limit of the container (docs/using/memory.md)",
		"these regions have no memory limit: they do not passivate entities before the machine runs out of memory")
}

func (x *exam) connections() {
	names := x.which(func(p *Setup) bool {
		return p.ConnectionsLimit > 0 && float64(p.Connections) >= nearConnections*float64(p.ConnectionsLimit)
	})
	x.sayOf(names, Warning,
		"start more gateways, or raise service.connections",
		"these processes have more than 80 % of the connections that service.connections allows")
}

func (x *exam) commands() {
	names := x.which(func(p *Setup) bool {
		return p.CommandsLimit > 0 && float64(p.Commands) >= nearConnections*float64(p.CommandsLimit)
	})
	x.sayOf(names, Warning,
		"start more regions, or find what makes commands wait (roost cluster top, roost entity explain)",
		"these regions hold more than 80 % of the commands that region.commands allows")
}

func (x *exam) hotShards() {
	for _, s := range x.Shards {
		if s.Load >= HotShard && s.Load > hotShare*x.Load/float64(max(1, x.Regions)) {
			x.say(Warning, []string{s.Region}, "roost cluster top lists the entities that take it: a single one must do less, or become several; many with similar or made-up ids may be an attack (gateway.principal_rate)",
				"the shard %s alone takes %.1f processors, and all shards together %.1f: no move relieves the region that has it", s.Shard, s.Load, x.Load)
		}
	}
}
