package server

import (
	"errors"
	"net"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/auth"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config is the configuration of a gateway process.
type Config struct {
	config.Config
	// Core limits the commands in progress.
	Core       router.Config `key:"gateway" omit:"link_idle"`
	Discovery  string        `key:"discovery.url" secret:"url" help:"where the gateway finds the coordinators, such as static://host:port,host:port or file:/etc/roost/peers. The list may also name regions, as region@host:port, so that a gateway can start while no coordinator runs. For dns, etcd, consul and kubernetes, see docs/running/discovery.md"`
	PeerListen string        `key:"gateway.peer_listen" help:"host:port of the listener at which the gateway answers coordinators and other gateways that ask it for an operator (roost entity explain, cluster slow, cluster doctor). They need a certificate of the peers, so there is no such listener without tls.ca. Without host: the host of service.listen. Port 0: any free port. Empty: none; then the gateway answers them only at its management listener, if that is plain and requires no token"`
	// Public are the files of the public listener, which serves clients.
	Public Public `key:"public"`
	// Auth configures the authentication of the senders of commands, and their permissions.
	Auth       auth.Config   `key:"auth"`
	MaxPayload setting.Bytes `key:"gateway.max_body" range:">0..1MiB" why:"it is the longest payload that regions take" help:"the longest payload of a command, at most 1MiB. The gateway answers a longer payload with 413"`
	MaxItems   int           `key:"gateway.max_items" unit:"commands" range:"1.." help:"the most commands in one AskMany request. The gateway answers a request with more commands with 413, before it decodes the request" expert:"true"`
	Inbox      int           `key:"gateway.inbox" unit:"messages" range:"1.." help:"the most messages that may wait for the gateway's loop. Beyond this limit, the gateway refuses commands as resource_exhausted" expert:"true"`
	Refusals   int           `key:"gateway.refusals" unit:"entities" range:"0.." help:"the most overloaded entities that the gateway remembers. The gateway refuses commands for a remembered entity itself, instead of sending each command to the region. 0: the gateway remembers none" expert:"true"`
	// What one principal may send.
	PrincipalRate  float64  `key:"gateway.principal_rate" unit:"commands per second" range:"0..100000000" help:"the most commands that one principal may send to this gateway per second. The gateway refuses further commands as resource_exhausted, with Retry-After. Senders without a principal are counted by their address. 0: no limit"`
	PrincipalBurst int      `key:"gateway.principal_burst" unit:"commands" range:"0.." help:"the most commands that a principal may send at once, if it has sent few for a while. 0: as many as in a second" expert:"true"`
	Principals     int      `key:"gateway.principals" unit:"principals" range:"1.." help:"the most principals whose commands are counted for gateway.principal_rate. If there are more, those that have sent nothing for longest begin anew" expert:"true"`
	TellRegion     bool     `key:"gateway.tell_region" help:"whether each answer names its region in the header Roost-Region. The header shows clients an address of your network" expert:"true"`
	Required       []string `key:"gateway.required_types" help:"entity types that a region must have registered before the gateway is ready, such as Cart,Order. Empty: one type of any name is enough"`
	Lanes          int      `key:"gateway.lanes" unit:"connections" range:"1.." help:"number of connections to each region. The default is a quarter of the processors, at least 1 and at most 4. More than one connection helps only on machines with many processors" expert:"true"`
}

// Public names the files that secure the public listener of a gateway. Its clients are no peers, so it can
// have another certificate, and other authorities, than the connections to coordinators and regions.
type Public struct {
	Plain      bool   `key:"plain" help:"whether clients reach the gateway over plain TCP although tls.cert is set. For gateways behind a proxy on a private network"`
	Cert       string `key:"cert" help:"file with the certificate chain that clients see. Empty: the chain of tls.cert, and then tls.client_auth determines whether clients must present certificates"`
	Key        string `key:"key" help:"file with the private key of the certificate of public.cert"`
	CA         string `key:"ca" help:"file with the authorities that must have signed the certificates of clients"`
	ClientAuth string `key:"client_auth" help:"whether clients must present a certificate. require: each client must, if public.ca is set. request: a client may, so that others can use tokens. none: clients are not asked"`
	Deny       string `key:"deny" help:"file with certificates of clients that are refused, as for tls.deny" expert:"true"`
}

// Common returns the configuration that every service has.
func (c *Config) Common() *config.Config {
	c.PublicClients, c.Config.PeerListen = true, c.PeerListen
	if p := &c.Public; p.Plain || p.Cert != "" || p.Key != "" || p.CA != "" {
		c.ServiceTLS = &security.ServiceTLS{Section: "public", TLS: security.TLS{Cert: p.Cert, Key: p.Key, CA: p.CA, ClientAuth: p.ClientAuth, Deny: p.Deny}}
	}
	return &c.Config
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	c := Config{
		Core:       router.DefaultConfig(),
		Config:     config.Default(":8080"),
		Discovery:  "static://127.0.0.1:25521",
		PeerListen: ":0", // several gateways of one host do not get into each other's way
		Public:     Public{ClientAuth: "none"},
		Auth:       auth.DefaultConfig(),
		MaxPayload: sharding.MaxPayload,
		MaxItems:   1000,
		Inbox:      65536,
		Principals: 16_384, // these take some 4 MiB
		Refusals:   1024,   // these take some 200 KiB; fewer entities than this are overloaded at a time
		Lanes:      link.DefaultConfig().Lanes,
	}
	// Within ShutdownDelay, each client uses its connection again. So the gateway can close the
	// connection with an answer.
	c.ShutdownDelay = 500 * time.Millisecond
	c.ReadTimeout = c.Core.MaxTimeout + 15*time.Second // a request takes as long as its command
	return c
}

// verifies reports whether the public listener verifies certificates of clients.
func (c *Config) verifies() bool {
	p := &c.Public
	if p.Plain {
		return false
	}
	if p.Cert != "" {
		return p.CA != "" && p.ClientAuth != "none"
	}
	return c.TLS.Cert != "" && c.TLS.CA != "" && c.TLS.ClientAuth != "none"
}

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	c.Common() // the common part depends on the public listener
	errs := []error{setting.Ranges(c), setting.Prefix("gateway", c.Core.CheckRoom(c.MaxPayload))}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.Discovery == "" {
		bad("discovery.url", "is empty; give the coordinators, such as static://127.0.0.1:25521")
	}
	if _, _, err := net.SplitHostPort(c.PeerListen); err != nil && c.PeerListen != "" {
		bad("gateway.peer_listen", "is %q, which is not an address: write host:port or :port", c.PeerListen)
	}
	if c.Public.Plain && (c.Public.Cert != "" || c.Public.Key != "" || c.Public.CA != "") {
		bad("public.plain", "is set, and so are files of public; set either")
	}
	if c.Auth.ClientCertificates && !c.verifies() {
		bad("auth.client_certificates", "needs public.cert and public.ca with public.client_auth request or require, or tls.cert and tls.ca: otherwise certificates are not verified")
	}
	for _, name := range c.Required {
		errs = append(errs, sharding.CheckEntityType("a name in gateway.required_types", sharding.EntityType(name)))
	}
	if c.Lanes > link.MaxLanes {
		bad("gateway.lanes", "is %d, must be at most %d", c.Lanes, link.MaxLanes)
	}
	if c.ReadTimeout <= c.Core.MaxTimeout {
		bad("service.read_timeout", "is %s, must be above %s (%s), or requests are cut before their commands end", c.ReadTimeout, setting.Key("gateway.max_timeout"), c.Core.MaxTimeout)
	}
	if c.MaxPayload > c.MaxBody {
		bad("service.max_body", "is %s, must not be below %s (%s)", c.MaxBody, setting.Key("gateway.max_body"), c.MaxPayload)
	}
	return errors.Join(errs...)
}
