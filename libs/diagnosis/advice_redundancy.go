package diagnosis

import (
	"slices"
)

// What a single failure stops.

func (x *exam) silent() {
	for _, s := range x.Silent {
		if s.Role == "gateway" {
			// Perhaps it has ended. Or it has no TLS, and its management listener cannot be reached or wants a token.
			x.say(Note, []string{s.Name},
				"if it runs, look at its gateway.peer_listen, which needs tls.ca; without TLS at its management.listen and management.token_for",
				"gateway %s has not answered: %s", s.Name, s.Reason)
			continue
		}
		x.say(Danger, []string{s.Name}, "look at roost cluster status, and at the log of the process", "%s %s has not answered: %s", s.Role, s.Name, s.Reason)
	}
}

// silentOf counts the silent members of a role.
func (x *exam) silentOf(role string) (n int) {
	for _, s := range x.Silent {
		if s.Role == role {
			n++
		}
	}
	return n
}

func (x *exam) coordinators() {
	if c := x.all("coordinator"); len(c)+x.silentOf("coordinator") == 1 {
		x.say(Warning, c, "start a second coordinator; it stands by", "there is only one coordinator: while it is down, no shard is started or moved")
	}
}

func (x *exam) standby() {
	if c := x.all("coordinator"); len(c) == 1 && x.silentOf("coordinator") > 0 {
		x.say(Danger, c, "restart the standby coordinators", "no standby coordinator answers: if %s fails, no other takes over", c[0])
	}
}

func (x *exam) regions() {
	if r := x.all("region"); len(r)+x.silentOf("region") < 2 {
		x.say(Warning, r, "start more regions", "there are fewer than two regions: if one fails, no other takes its shards over")
	}
}

func (x *exam) gateways() {
	if g := x.all("gateway"); len(g) == 1 {
		x.say(Note, g, "start a second gateway, and give clients the addresses of both", "there is only one gateway: while it is down, no client is served")
	}
}

// hosts returns the machines on which processes with a role run; of the empty role: all machines.
func (x *exam) hosts(role string) (hosts []string) {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.Host != "" && (role == "" || p.Role == role) && !slices.Contains(hosts, p.Host) {
			hosts = append(hosts, p.Host)
		}
	}
	return hosts
}

func (x *exam) oneHost() {
	if len(x.Processes) > 1 && len(x.hosts("")) == 1 {
		x.say(Note, nil, "run regions and coordinators on several machines, with a journal that all of them can reach", "all processes run on one machine: they fail together")
	}
}

func (x *exam) zones() {
	regions := x.all("region")
	if without := x.which(func(p *Setup) bool { return p.Role == "region" && p.Zone == "" }); len(x.hosts("region")) > 1 && len(without) > 0 {
		if len(without) == len(regions) {
			x.say(Note, nil, "set node.zone if some of the machines can fail together", "regions run on several machines, and no node.zone is set: shards are not spread over zones")
			return
		}
		x.say(Warning, without, "set node.zone for all regions, or for none", "these regions have no node.zone, and others have one: those without count as a zone of their own")
	}
}
