package server

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/auth"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config is the configuration of a gateway process.
type Config struct {
	node.Config
	Discovery  string        `key:"discovery.url" secret:"url" help:"where the gateway finds the coordinators, such as static://host:port,host:port or file:/etc/roost/peers. The list may also name regions, as region@host:port, so that a gateway can start while no coordinator runs. For dns, etcd, consul and kubernetes, see docs/discovery.md"`
	Timeout    time.Duration `key:"gateway.timeout" help:"time that a command has if its client names no time. Should be longer than a failover"`
	PeerListen string        `key:"gateway.peer_listen" help:"host:port of the listener at which the gateway answers coordinators and other gateways that ask it for an operator (roost explain, slow, doctor). They need a certificate of the peers, so there is no such listener without tls.ca. Without host: that of service.listen. Port 0: any free port. Empty: none; then the gateway can be asked only at its management listener, if that is plain and asks for no token"`
	// Public are the files of the public listener, which serves clients.
	Public Public `key:"public"`
	// Auth says how the senders of commands are authenticated, and what they may do.
	Auth         auth.Config   `key:"auth"`
	MaxTimeout   time.Duration `key:"gateway.max_timeout" help:"longest time that a command may have. If a client names a longer time, the command has this time"`
	MaxPayload   setting.Bytes `key:"gateway.max_body" help:"the longest payload of a command, at most 1MiB. The gateway answers a longer payload with 413"`
	MaxItems     int           `key:"gateway.max_items" unit:"commands" help:"the most commands in one AskMany request. The gateway answers a request with more commands with 413, before it decodes the request"`
	Inbox        int           `key:"gateway.inbox" unit:"messages" help:"the most messages that may wait for the gateway's loop. Beyond this limit, the gateway refuses commands as resource_exhausted"`
	Commands     int           `key:"gateway.commands" unit:"commands" help:"the most commands in progress in the whole gateway. The gateway refuses further commands as resource_exhausted"`
	CommandBytes setting.Bytes `key:"gateway.command_bytes" help:"the largest total size of the commands in progress in the whole gateway. The gateway refuses further commands as resource_exhausted"`
	ReplyBytes   setting.Bytes `key:"gateway.reply_bytes" help:"the largest total size of replies: replies that clients have not taken yet, and expected replies to commands in progress. The gateway refuses further commands as resource_exhausted"`
	ShardMax     int           `key:"gateway.shard_commands" unit:"commands" help:"the most commands in progress to one shard. So one hot or moving shard cannot use up gateway.commands. The gateway refuses further commands to that shard as resource_exhausted"`
	ShardBytes   setting.Bytes `key:"gateway.shard_bytes" help:"the largest total size of the commands in progress to one shard. The gateway refuses further commands to that shard as resource_exhausted"`
	Deferred     float64       `key:"gateway.deferred_share" help:"share (0 to 1) of gateway.commands, gateway.command_bytes, gateway.shard_commands and gateway.shard_bytes that deferred commands may use. A deferred command waits until its shard has moved, because the present region runs a version without that command. The gateway refuses further such commands at once. 0: no command is deferred"`
	Refusals     int           `key:"gateway.refusals" unit:"entities" help:"the most overloaded entities that the gateway remembers. The gateway refuses commands for a remembered entity itself, instead of sending each command to the region. 0: the gateway remembers none"`
	// What one principal may send.
	PrincipalRate  float64  `key:"gateway.principal_rate" unit:"commands per second" help:"the most commands that one principal may send to this gateway per second. The gateway refuses further commands as resource_exhausted, and says when to send them again. Senders without a principal are counted by their address. 0: no limit"`
	PrincipalBurst int      `key:"gateway.principal_burst" unit:"commands" help:"the most commands that a principal may send at once, if it has sent few for a while. 0: as many as in a second"`
	Principals     int      `key:"gateway.principals" unit:"principals" help:"the most principals whose commands are counted for gateway.principal_rate. If there are more, those that have sent nothing for longest begin anew"`
	TellRegion     bool     `key:"gateway.tell_region" help:"whether each answer names its region in the header Roost-Region. The header shows clients an address of your network"`
	Required       []string `key:"gateway.required_types" help:"entity types that a region must have registered before the gateway is ready, such as Cart,Order. Empty: one type of any name is enough"`
	Lanes          int      `key:"gateway.lanes" unit:"connections" help:"number of connections to each region. The default is a quarter of the processors, at least 1 and at most 4. More than one connection helps only on machines with many processors"`
}

// Public names the files that secure the public listener of a gateway. Its clients are no peers, so it can
// have another certificate, and other authorities, than the connections to coordinators and regions.
type Public struct {
	Plain      bool   `key:"plain" help:"whether clients reach the gateway over plain TCP although tls.cert is set. For gateways behind a proxy on a private network"`
	Cert       string `key:"cert" help:"file with the certificate chain that clients see. Empty: that of tls.cert, and then clients must present certificates as tls.client_auth says"`
	Key        string `key:"key" help:"file with the private key of the certificate of public.cert"`
	CA         string `key:"ca" help:"file with the authorities that must have signed the certificates of clients"`
	ClientAuth string `key:"client_auth" help:"whether clients must present a certificate. require: each client must, if public.ca is set. request: a client may, so that others can use tokens. none: clients are not asked"`
	Deny       string `key:"deny" help:"file with certificates of clients that are refused, as for tls.deny"`
}

// Common returns the configuration that every service has.
func (c *Config) Common() *node.Config {
	c.PublicClients, c.Config.PeerListen = true, c.PeerListen
	if p := &c.Public; p.Plain || p.Cert != "" || p.Key != "" || p.CA != "" {
		c.ServiceTLS = &node.ServiceTLS{Section: "public", TLS: node.TLS{Cert: p.Cert, Key: p.Key, CA: p.CA, ClientAuth: p.ClientAuth, Deny: p.Deny}}
	}
	return &c.Config
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	core := router.DefaultConfig()
	c := Config{
		Config:       node.DefaultConfig(":8080"),
		Discovery:    "static://127.0.0.1:25521",
		PeerListen:   ":0", // several gateways of one host do not get into each other's way
		Public:       Public{ClientAuth: "none"},
		Auth:         auth.DefaultConfig(),
		Timeout:      core.DefaultTimeout,
		MaxTimeout:   core.MaxTimeout,
		MaxPayload:   sharding.MaxPayload,
		MaxItems:     1000,
		Inbox:        65536,
		Commands:     core.MaxTotal,
		CommandBytes: setting.Bytes(core.MaxTotalBytes),
		ReplyBytes:   setting.Bytes(core.MaxReplyBytes),
		ShardMax:     core.MaxWaiting,
		ShardBytes:   setting.Bytes(core.MaxWaitingBytes),
		Deferred:     core.DeferredShare,
		Principals:   16_384, // these take some 4 MiB
		Refusals:     1024,   // these take some 200 KiB; fewer entities than this are overloaded at a time
		Lanes:        link.DefaultConfig().Lanes,
	}
	// Within ShutdownDelay, each client uses its connection again. So the gateway can close the
	// connection with an answer.
	c.ShutdownDelay = 500 * time.Millisecond
	c.ReadTimeout = c.MaxTimeout + 15*time.Second // a request takes as long as its command
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
	var errs []error
	if c.Discovery == "" {
		errs = append(errs, errors.New("discovery.url is empty; give the coordinators, such as static://127.0.0.1:25521"))
	}
	if _, _, err := net.SplitHostPort(c.PeerListen); err != nil && c.PeerListen != "" {
		errs = append(errs, fmt.Errorf("gateway.peer_listen %q is not an address: write host:port or :port", c.PeerListen))
	}
	for _, l := range []struct {
		key   string
		value int64
	}{
		{"gateway.timeout", int64(c.Timeout)}, {"gateway.max_body", int64(c.MaxPayload)}, {"gateway.max_items", int64(c.MaxItems)},
		{"gateway.inbox", int64(c.Inbox)}, {"gateway.shard_commands", int64(c.ShardMax)}, {"gateway.shard_bytes", int64(c.ShardBytes)},
	} {
		if l.value <= 0 {
			errs = append(errs, fmt.Errorf("%s must be above 0", l.key))
		}
	}
	if least := setting.Bytes(2 * link.DefaultConfig().MaxPayload); c.ReplyBytes < least {
		errs = append(errs, fmt.Errorf("gateway.reply_bytes %s must be at least %s, twice the longest reply, or large ones never find room", c.ReplyBytes, least))
	}
	if !(c.Deferred >= 0 && c.Deferred <= 1) {
		errs = append(errs, fmt.Errorf("gateway.deferred_share is %v, must be 0 to 1", c.Deferred))
	}
	if !(c.PrincipalRate >= 0 && c.PrincipalRate <= maxPrincipalRate) || c.PrincipalBurst < 0 || c.Principals < 1 {
		errs = append(errs, fmt.Errorf("gateway.principal_rate must be 0 to %d, gateway.principal_burst must not be below 0, and gateway.principals must be above 0", maxPrincipalRate))
	}
	if c.Refusals < 0 {
		errs = append(errs, errors.New("gateway.refusals must not be below 0"))
	}
	errs = append(errs, setting.Prefix("auth", c.Auth.Validate()))
	if c.Public.Plain && (c.Public.Cert != "" || c.Public.Key != "" || c.Public.CA != "") {
		errs = append(errs, errors.New("public.plain is set, and so are files of public; set either"))
	}
	if c.Auth.ClientCertificates && !c.verifies() {
		errs = append(errs, errors.New("auth.client_certificates needs public.cert and public.ca with public.client_auth request or require, or tls.cert and tls.ca: nobody verifies certificates otherwise"))
	}
	for _, name := range c.Required {
		errs = append(errs, sharding.CheckEntityType("a name in gateway.required_types", sharding.EntityType(name)))
	}
	if c.Lanes < 1 || c.Lanes > link.MaxLanes {
		errs = append(errs, fmt.Errorf("gateway.lanes is %d, must be 1 to %d", c.Lanes, link.MaxLanes))
	}
	if c.MaxTimeout < c.Timeout {
		errs = append(errs, fmt.Errorf("gateway.max_timeout %s must not be below gateway.timeout %s", c.MaxTimeout, c.Timeout))
	}
	if c.ReadTimeout <= c.MaxTimeout {
		errs = append(errs, fmt.Errorf("service.read_timeout %s must be above gateway.max_timeout %s, or requests are cut before their commands end", c.ReadTimeout, c.MaxTimeout))
	}
	if c.Commands < c.ShardMax || c.CommandBytes < c.ShardBytes {
		errs = append(errs, errors.New("gateway.commands and gateway.command_bytes must not be below gateway.shard_commands and gateway.shard_bytes"))
	}
	if c.MaxPayload > sharding.MaxPayload {
		errs = append(errs, fmt.Errorf("gateway.max_body %s is above %s, the longest payload that regions take", c.MaxPayload, setting.Bytes(sharding.MaxPayload)))
	}
	if c.MaxPayload > c.MaxBody {
		errs = append(errs, fmt.Errorf("service.max_body %s must not be below gateway.max_body %s", c.MaxBody, c.MaxPayload))
	}
	if c.MaxPayload >= c.ShardBytes {
		errs = append(errs, fmt.Errorf("gateway.shard_bytes %s must be above gateway.max_body %s, or the longest command never finds room", c.ShardBytes, c.MaxPayload))
	}
	return errors.Join(errs...)
}

// maxPrincipalRate is more commands per second than any gateway answers.
const maxPrincipalRate = 100_000_000

// core is the configuration of the core.
func (c *Config) core() router.Config {
	core := router.DefaultConfig()
	core.DefaultTimeout, core.MaxTimeout = c.Timeout, c.MaxTimeout
	core.MaxWaiting, core.MaxWaitingBytes = c.ShardMax, int(c.ShardBytes)
	core.MaxTotal, core.MaxTotalBytes = c.Commands, int(c.CommandBytes)
	core.DeferredShare = c.Deferred
	core.MaxReplyBytes = int(c.ReplyBytes)
	return core
}
