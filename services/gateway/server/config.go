package server

import (
	"errors"
	"net"
	"time"

	"github.com/roost-cluster/roost/libs/discovery"
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
	Discovery  discovery.At  `key:"discovery"`
	PeerListen string        `key:"gateway.peer_listen" help:"host:port of the listener at which the gateway answers coordinators and other gateways that ask it for an operator (roost entity explain, cluster slow, cluster doctor). They need a certificate of the peers, so there is no such listener without tls.ca. Without host: the host of service.listen. Port 0: any free port. Empty: none; then the gateway answers only at its management listener, if that is plain and needs no token"`
	// Public configures the public listener, which serves clients.
	Public security.Public `key:"public"`
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

// Common returns the configuration that every service has.
func (c *Config) Common() *config.Config {
	c.PublicClients, c.Config.PeerListen = true, c.PeerListen
	if c.Public.Own() {
		c.Config.Public = &c.Public
	}
	return &c.Config
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	c := Config{
		Core:       router.DefaultConfig(),
		Config:     config.Default(":8080"),
		Discovery:  discovery.DefaultAt(),
		PeerListen: ":0", // several gateways of one host do not get into each other's way
		Public:     security.Public{PublicTLS: security.PublicTLS{ClientAuth: "none"}},
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
	if _, _, err := net.SplitHostPort(c.PeerListen); err != nil && c.PeerListen != "" {
		bad("gateway.peer_listen", "is %q, which is not an address: write host:port or :port", c.PeerListen)
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
