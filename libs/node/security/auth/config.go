package auth

import (
	"errors"
	"net/url"
	"time"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/setting"
)

// Config configures how the principal of a request is found. If no method is set, requests are not
// authenticated, and commands have no principal.
type Config struct {
	JWTKeys     string        `key:"jwt_keys" help:"public keys of the issuer of JSON Web Tokens, as a JSON Web Key Set: a file, or an https:// URL. Clients send the token in the header Authorization: Bearer. Empty: no tokens are accepted"`
	JWTIssuer   string        `key:"jwt_issuer" help:"the issuer (iss) that tokens must have"`
	JWTAudience string        `key:"jwt_audience" help:"the audience (aud) that tokens must have"`
	JWTSkew     time.Duration `key:"jwt_skew" range:"0..10m" why:"a larger one would make the end of a token meaningless" help:"by how much the clocks of the issuer and of this gateway may differ when the times in a token are checked" expert:"true"`
	JWTRefresh  time.Duration `key:"jwt_refresh" range:">0" help:"least time between two requests to the URL in {.jwt_keys}. A token with an unknown key causes such a request" expert:"true"`
	JWTMaxAge   time.Duration `key:"jwt_max_age" help:"time after which keys from the URL in {.jwt_keys} are no longer used, if the URL has not answered since. Half of this time after an answer, the keys are requested again" expert:"true"`
	APIKeys     string        `key:"api_keys" help:"file with the names of API keys and the SHA-256 hashes of the keys, one pair in each line. roost auth key new writes such a line. Clients send the key in the header Authorization: Bearer. The file is read again when it changes. Empty: no API keys are accepted"`
	// ClientCertificates needs a TLS listener that asks for certificates.
	ClientCertificates bool `key:"client_certificates" help:"whether a client's certificate names its principal. Needs public.ca with public.client_auth, or tls.ca"`
	Anonymous          bool `key:"anonymous" help:"whether requests without token, API key and certificate are accepted. Their principal is empty, and {.policy} calls it anonymous"`
	security.PolicySettings
}

// DefaultConfig returns the configuration before file, environment and flags: no authentication.
func DefaultConfig() Config {
	return Config{
		// The usual allowance for clocks that a time service keeps.
		JWTSkew: time.Minute,
		// An attacker with invented tokens must not make the gateway flood the issuer.
		JWTRefresh: 30 * time.Second,
		// A key that the issuer has withdrawn is not used for longer.
		JWTMaxAge: time.Hour,
	}
}

// Enabled reports whether requests are authenticated.
func (c *Config) Enabled() bool { return c.JWTKeys != "" || c.APIKeys != "" || c.ClientCertificates }

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.JWTKeys != "" {
		if c.JWTIssuer == "" || c.JWTAudience == "" {
			bad("jwt_issuer", "and %s must be set with %s: a token for another service must not be accepted", setting.Key("jwt_audience"), setting.Key("jwt_keys"))
		}
		if u, err := url.Parse(c.JWTKeys); err == nil && u.Scheme == "http" {
			bad("jwt_keys", "%s is not protected; write an https:// URL or a file", c.JWTKeys)
		}
	} else if c.JWTIssuer != "" || c.JWTAudience != "" {
		bad("jwt_issuer", "or %s is set, but %s is empty; give the keys of the issuer", setting.Key("jwt_audience"), setting.Key("jwt_keys"))
	}
	if c.JWTMaxAge < 2*c.JWTRefresh {
		bad("jwt_max_age", "is %s, must be at least twice %s (%s)", c.JWTMaxAge, setting.Key("jwt_refresh"), c.JWTRefresh)
	}
	if c.Anonymous && !c.Enabled() {
		bad("anonymous", "is set, but no way to authenticate is: set %s, %s or %s, or leave it out", setting.Key("jwt_keys"), setting.Key("api_keys"), setting.Key("client_certificates"))
	}
	if c.Policy != "" && !c.Enabled() {
		bad("policy", "is set, but no client is authenticated: set %s, %s or %s", setting.Key("jwt_keys"), setting.Key("api_keys"), setting.Key("client_certificates"))
	}
	return errors.Join(errs...)
}
