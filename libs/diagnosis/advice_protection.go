package diagnosis

import (
	"maps"
	"slices"
	"time"
)

// Who can reach the processes of the cluster, and what they can do there.

// exposed returns Danger if one of the processes can be reached from other machines, otherwise Warning.
func (x *exam) exposed(names []string) string {
	if len(x.which(func(p *Setup) bool { return slices.Contains(names, p.Name) && !p.Local })) > 0 {
		return Danger
	}
	return Warning
}

func (x *exam) tls() {
	names := x.which(func(p *Setup) bool { return !p.Tls })
	x.sayOf(names, x.exposed(names),
		"set tls.cert, tls.key and tls.ca (docs/running/security.md)",
		"processes talk to each other without TLS: anyone on their network can read their messages and send any")
}

func (x *exam) peers() {
	names := x.which(func(p *Setup) bool { return p.Tls && !p.Verifies && p.Role != "gateway" })
	x.sayOf(names, x.exposed(names),
		"set tls.ca, and tls.client_auth to require",
		"these processes ask peers for no certificate: anyone who reaches them can pose as a peer")
}

func (x *exam) authentication() {
	names := x.which(func(p *Setup) bool { return p.Role == "gateway" && !p.Authenticates })
	x.sayOf(names, x.exposed(names),
		"set auth.jwt_keys, auth.api_keys or auth.client_certificates (docs/running/security.md)",
		"these gateways do not authenticate clients: anyone who reaches them may send every command")
}

func (x *exam) public() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Role == "gateway" && p.Authenticates && !p.PublicTls && !p.Local }), Warning,
		"set public.cert and public.key. If a proxy in front of the gateways has TLS, and the network between proxy and gateways is private, nothing needs to be done",
		"clients send their tokens and keys to these gateways without TLS")
}

func (x *exam) policy() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Role == "gateway" && p.Authenticates && !p.Policy }), Note,
		"write a policy and set auth.policy to its file",
		"there is no policy: every authenticated client may send every command")
}

func (x *exam) management() {
	x.sayOf(x.which(func(p *Setup) bool { return !p.ManagementLocal && !p.ManagementGuarded }), Warning,
		"set management.tokens, or keep management.listen on loopback (docs/running/security.md)",
		"the management listener can be reached from other machines, and asks for no token")
}

func (x *exam) unguarded() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Tls && p.ManagementLocal && !p.ManagementGuarded }), Note,
		"set management.tokens (docs/running/security.md)",
		"any user of the machine may change the cluster: the management listener requires no token")
}

func (x *exam) managementPlain() {
	x.sayOf(x.which(func(p *Setup) bool { return !p.ManagementLocal && p.ManagementGuarded && !p.ManagementTls }), Warning,
		"set management.cert and management.key, unless only a proxy on the same machine or pod reaches it",
		"operators send their tokens to the management listener without TLS")
}

func (x *exam) anyRole() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Tls && p.Verifies && p.AnyRole }), Warning,
		"issue certificates that name roles, and set tls.roles to require (docs/running/security.md)",
		"any process with a certificate of tls.ca that names no role can be a coordinator")
}

func (x *exam) shared() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Shared && p.Role != "gateway" }), Note,
		"issue a certificate for each process, if one of them might be taken over (docs/running/security.md)",
		"the certificates of these processes name their role only: one of them can speak for another one")
}

// open returns Warning if the management listener of one of the processes asks for no token, otherwise Note.
func (x *exam) open(names []string) string {
	if len(x.which(func(p *Setup) bool { return slices.Contains(names, p.Name) && !p.ManagementGuarded })) > 0 {
		return Warning
	}
	return Note
}

func (x *exam) payloads() {
	x.sayOf(x.which(func(p *Setup) bool { return p.ShowPayloads }), x.open(x.all("coordinator")),
		"switch coordinator.show_payloads and region.show_payloads off when they are not needed",
		"operators may see what entities store")
}

func (x *exam) commandsTried() {
	names := x.which(func(p *Setup) bool { return p.TryCommands })
	x.sayOf(names, x.open(names),
		"switch coordinator.try_commands off when it is not needed",
		"operators may send any command to any entity, without being its client")
}

func (x *exam) pprof() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Pprof && !p.ManagementLocal && !p.ManagementGuarded }), Warning,
		"set management.pprof to false when you do not need it",
		"profiles and stacks can be read from other machines")
}

func (x *exam) certificates() {
	for i := range x.Processes {
		p := &x.Processes[i]
		left := time.Duration(p.CertificateS) * time.Second
		if !p.Certificate || left >= certificateSoon {
			continue
		}
		severity, text := Warning, "expires in "+days(left)
		if left < certificateLast {
			severity = Danger
		}
		if left < 0 {
			text = "expired " + days(-left) + " ago"
		}
		x.say(severity, []string{p.Name}, "replace the file of tls.cert; the process reads it again without a restart", "the certificate of %s %s", p.Name, text)
	}
}

// refused reports certificates that have expired, by what other processes remember: the process itself may have been
// removed from the cluster, so it cannot answer any more.
func (x *exam) refused() {
	by, ends := map[string][]string{}, map[string]int64{}
	for i := range x.Processes {
		for _, e := range x.Processes[i].Expired {
			by[e.Name], ends[e.Name] = append(by[e.Name], x.Processes[i].Name), e.EndUnixMs
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x.say(Danger, by[name], "renew its files of tls.cert and tls.key, which it reloads automatically; start it again if it has ended (docs/running/walk.md)",
			"the certificate of %s expired at %s: these processes refuse its connections, so it is unreachable for them, and may be removed from the cluster", name, time.UnixMilli(ends[name]).UTC().Format(time.RFC3339))
	}
}
