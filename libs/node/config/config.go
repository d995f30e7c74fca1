package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config is the part of the configuration that every service has. A service embeds it in a struct of its own and adds
// fields with the tags of package setting; see [Load] for how their keys are spelled where. Fields with keys are
// strings, booleans, numbers, [time.Duration], [setting.Bytes], []string, map[string]string, and types that implement
// [encoding.TextUnmarshaler]. The values of a map with the tag nested are words for [SetWords].
type Config struct {
	ClusterName    string `key:"cluster.name" help:"name of the cluster. This node refuses nodes of clusters with another name. At most 63 letters, digits, '_', '-' and '.'; the first must be a letter"`
	Name           string `key:"node.name" help:"stable name of this node, which is shown everywhere. Empty: the host's name"`
	Advertise      string `key:"node.advertise" help:"host[:port] at which peers reach this node. Empty: the address comes from service.listen"`
	AddressFile    string `key:"node.address_file" help:"file into which the process writes its pid and addresses, as JSON, once both listeners are bound" expert:"true"`
	ExitWithParent bool   `key:"node.exit_with_parent" help:"whether the process exits at once when its parent process ends, however the parent ends" expert:"true"`

	Listen        string        `key:"service.listen" help:"host:port of the service listener. Port 0: any free port"`
	MaxBody       setting.Bytes `key:"service.max_body" range:">0" help:"the longest request body. A request with a longer body is answered 413" expert:"true"`
	MaxHeader     setting.Bytes `key:"service.max_header" range:">0" help:"the longest request header. A request with a longer header is answered 431" expert:"true"`
	HeaderTimeout time.Duration `key:"service.header_timeout" range:">0" help:"time that a client has to send the header of a request" expert:"true"`
	ReadTimeout   time.Duration `key:"service.read_timeout" range:">0" help:"time that a request has from its first byte to its answer" expert:"true"`
	BodyTimeout   time.Duration `key:"service.body_timeout" range:">0" help:"longest pause between bytes of a request's body. After this time, the request is answered 408" expert:"true"`
	WriteTimeout  time.Duration `key:"service.write_timeout" range:">0" help:"longest time that a client may read no byte of its answer. After this time, its connection is closed. A slow client that continues reading is served" expert:"true"`
	IdleTimeout   time.Duration `key:"service.idle_timeout" range:">0" help:"time after which a connection without requests is closed. A load balancer must close it sooner, or requests that it sends at this moment are in doubt" expert:"true"`
	Connections   int           `key:"service.connections" range:"1.." unit:"connections" help:"the most open connections of clients and peers. Further ones close those that have been idle for 1 s or more, the longest first. If there are none, their requests are answered 503" expert:"true"`
	BodyBytes     setting.Bytes `key:"service.body_bytes" help:"the largest total size of the request bodies that have arrived and are not answered, with their buffers and with decoded Twirp requests; at most a quarter of the memory limit (GOMEMLIMIT, or 90% of the container's limit). A request beyond this size is answered 429" expert:"true"`
	DialTimeout   time.Duration `key:"peer.dial_timeout" range:">0" help:"time that this node has to connect to a peer, including the TLS handshake" expert:"true"`
	MaxAnswer     setting.Bytes `key:"peer.max_answer" range:">0" help:"the longest answer of a peer. If an answer is longer, the request has failed" expert:"true"`

	Management Management `key:"management"`

	AllowedOrigins []string `key:"http.allowed_origins" help:"origins, such as https://shop.example, whose web pages may send requests to the service listener. Requests from pages of other origins are refused"`
	TrustedProxies []string `key:"http.trusted_proxies" help:"addresses and networks of proxies in front of the listeners, such as 10.1.0.0/16. A request from one of them counts as one from the last address in X-Forwarded-For that is not one of them: for gateway.principal_rate, the slow list, the audit and the log. Empty: X-Forwarded-For is ignored"`
	AllowedHosts   []string `key:"http.allowed_hosts" help:"host names that requests to the management listener and to listeners on loopback may use, besides localhost, addresses, node.advertise and, for the management listener, node.name and the name of the host. Requests with other host names are refused, because a web page can let any name point to 127.0.0.1 or to an address in your network"`

	TLS security.TLS `key:"tls"`
	// Roles and Identity are about the certificates of peers.
	Roles    string `key:"tls.roles" help:"whether the certificate of a peer must name its role. A peer whose certificate names a role can do only what that role does. require: a peer whose certificate names none is refused. accept: such a peer can be in any role"`
	Identity string `key:"tls.identity" help:"form of the URI in the certificate of a peer that names its role. {role} is coordinator, region or gateway. {cluster}, if it is there, must be cluster.name. {node}, if it is there, must be node.name of a coordinator or region; at the end, /{node} may be missing in a certificate, which is then for all processes of the role" expert:"true"`
	// PublicClients is true if the clients of the service listener are not peers. It has no key:
	// gateways set it.
	PublicClients bool
	// PeerListen is the address of a node with PublicClients for peers, by TLS with their certificates: host:port, or
	// :port with the host of service.listen. It has no key: the service sets it. Empty: peers are not served.
	PeerListen string
	// Public configures the service listener of a service whose clients are no peers, such as
	// a gateway, which sets and validates it. nil: TLS.
	Public *security.Public

	LogLevel  slog.Level `key:"log.level" help:"lowest level of log lines that are written: debug, info, warn or error"`
	LogFormat string     `key:"log.format" help:"format of log lines: text or json"`

	CollectFrom setting.Bytes `key:"memory.gc_floor" range:"0.." help:"size that the heap may reach before garbage is collected, while less than half of this size is live. A process that does nothing collects as by default, and gives memory that it does not need back to the system after half a minute. 0, or GOGC set in the environment: the Go runtime's default decides" expert:"true"`

	StalledAfter  time.Duration `key:"health.stalled_after" range:">0" help:"if a loop of the process has stood still for this time, /livez answers 503, so that a supervisor restarts the process" expert:"true"`
	HealthTimeout time.Duration `key:"health.timeout" range:">0" help:"time that each readiness check has. After this time, the check has failed. Should be shorter than the time that your prober waits" expert:"true"`
	HealthExclude []string      `key:"health.exclude" help:"names of readiness checks that /readyz lists, but that do not make it answer 503" expert:"true"`

	ShutdownDelay   time.Duration `key:"shutdown.delay" range:"0.." help:"time between the moment when /readyz turns 503 and the moment when the first stage stops. In this time, load balancers notice the shutdown"`
	ShutdownTimeout time.Duration `key:"shutdown.timeout" range:">0" help:"time that all stages together have to stop. Give the supervisor of the process a limit that is 5 s longer"`
}

// Management configures the management listener.
type Management struct {
	Listen   string `key:"listen" help:"host:port of the management listener, for health, metrics and administration"`
	Tokens   string `key:"tokens" help:"file with the names of management tokens and the SHA-256 hashes of the tokens, one pair in each line. roost auth key new writes such a line. A line that ends with the word read is for a token that changes nothing. Operators send the token in the header Authorization: Bearer. The file is read again when it changes. Empty: no operator is authenticated at the management listener"`
	TokenFor string `key:"token_for" help:"requests that need a management token. writes: requests that may change something, and /debug/pprof. all: every request except /livez, /readyz and /version"`
	Audit    string `key:"audit" help:"audit file: one line before an operator's request that may change something is carried out, and one with its outcome, both synced to disk. If the line cannot be written, nothing is done. A file that was renamed is made anew. Empty: these lines are in the log"`
	security.ManagementTLS
	Pprof       bool `key:"pprof" help:"whether the management listener serves /debug/pprof" expert:"true"`
	Connections int  `key:"connections" range:"1.." unit:"connections" help:"the most open connections to the management listener. Further ones close those that have been idle for 1 s or more, the longest first. If there are none, only /livez and /readyz are served on them" expert:"true"`
}

// TokenForAll is the value of management.token_for that requires a token for every request.
const TokenForAll = "all"

// RequireRoles is the value of tls.roles that requires a role in the certificates of peers.
const RequireRoles = "require"

// Default returns the defaults, with a service listener at listen, such
// as ":25520": which port is the service's own choice.
func Default(listen string) Config {
	return Config{
		ClusterName: "dev",
		Listen:      listen,
		// Twirp reads whole bodies, so this bounds the memory of one request.
		MaxBody:   4 << 20,
		MaxHeader: 64 << 10,
		// Long enough for any client that sends, short enough that idle
		// connections do not accumulate.
		HeaderTimeout: 5 * time.Second,
		ReadTimeout:   time.Minute,
		IdleTimeout:   2 * time.Minute,
		// Longer than any pause of a usable network.
		BodyTimeout: 10 * time.Second,
		// A kernel accepts no more of an answer until the client has read a good part of the
		// buffer.
		WriteTimeout: 30 * time.Second,
		// About 40 KiB each, without bodies.
		Connections: 10_000,
		// Twice the most that a gateway has in flight.
		BodyBytes: 128 << 20,
		// A peer in the same network that takes longer is not usable.
		DialTimeout: 2 * time.Second,
		// Four times the route table with the largest possible number of shards.
		MaxAnswer: 64 << 20,
		Management: Management{
			// Loopback, because clients are not authenticated without management.tokens.
			Listen: "127.0.0.1:8558",
			// Prometheus and those who only look need none, unless the operator wants it.
			TokenFor:      "writes",
			ManagementTLS: security.ManagementTLS{ClientAuth: "require"},
			Connections:   256,
		},
		// A busy process with little live data then collects garbage a few times a
		// second instead of dozens of times.
		CollectFrom: 64 << 20,
		TLS:         security.TLS{ClientAuth: "require"},
		// Certificates from before there were roles go on to work.
		Roles:     "accept",
		Identity:  security.DefaultIdentity,
		LogFormat: "text",
		// Longer than any pause that a machine recovers from without help.
		StalledAfter:    30 * time.Second,
		HealthTimeout:   time.Second, // as long as probers usually wait
		ShutdownTimeout: 90 * time.Second,
	}
}

// Common returns the configuration that every service has. A struct that embeds Config
// and has a Validate method is a [Configured].
func (c *Config) Common() *Config { return c }

// Validate returns an error that names every key with an unusable value.
func (m *Management) Validate() error {
	errs := []error{setting.Ranges(m), checkAddress("listen", m.Listen), m.ManagementTLS.Validate()}
	if m.TokenFor != "writes" && m.TokenFor != TokenForAll {
		errs = append(errs, setting.Errorf("token_for", "is %q: write writes or all", m.TokenFor))
	}
	if m.TokenFor == TokenForAll && m.Tokens == "" {
		errs = append(errs, setting.Errorf("token_for", "is all, but %s is empty; name the file with the tokens", setting.Key("tokens")))
	}
	return errors.Join(errs...)
}

// checkAddress refuses the value of a setting that is not an address to listen at.
func checkAddress(key setting.Key, addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return setting.Errorf(key, "is %q, which is not an address: write host:port or :port", addr)
	}
	return nil
}

// Validate returns every error in the common part.
func (c *Config) Validate() error {
	problems := []error{setting.Ranges(c), checkAddress("service.listen", c.Listen)}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if err := sharding.CheckCluster("cluster.name", c.ClusterName); err != nil {
		problems = append(problems, err)
	}
	if c.BodyBytes < c.MaxBody {
		bad("service.body_bytes %s must not be below service.max_body %s, or there would never be room for the longest request", c.BodyBytes, c.MaxBody)
	}
	if _, err := security.NewOrigins(c.AllowedOrigins); err != nil {
		bad("http.allowed_origins: %w", err)
	}
	if _, err := security.ParseProxies(c.TrustedProxies); err != nil {
		problems = append(problems, err)
	}
	if c.Roles != RequireRoles && c.Roles != "accept" {
		bad("tls.roles %q: write require or accept", c.Roles)
	}
	if c.Roles == RequireRoles && (c.TLS.CA == "" || c.TLS.ClientAuth == "none" && !c.PublicClients) {
		bad("tls.roles is require, but peers need not present certificates: set tls.ca, and tls.client_auth to require")
	}
	if err := security.CheckIdentity(c.Identity); err != nil {
		bad("tls.identity: %w", err)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		bad("log.format %q: write text or json", c.LogFormat)
	}
	return errors.Join(problems...)
}
