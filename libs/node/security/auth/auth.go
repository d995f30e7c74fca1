package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/watchfile"
	"github.com/roost-cluster/roost/libs/sharding"
)

// ErrUnavailable reports that the sender cannot be authenticated now, because the keys of the issuer could not be
// fetched. The request may be sent again.
var ErrUnavailable = errors.New("cannot authenticate now")

// Authenticator finds the principals of requests. It is safe for concurrent use.
type Authenticator struct {
	config Config
	tokens keySource // nil: none are accepted
	keys   *watchfile.File[map[[sha256.Size]byte]string]
	now    func() time.Time
	known  verified
}

// New returns an Authenticator, or nil if the configuration has no way to authenticate. client fetches
// keys from URLs; nil: a client that follows no redirects. bad is called when a changed file is
// unusable, and when keys cannot be fetched.
func New(config Config, client *http.Client, bad func(error)) (*Authenticator, error) {
	if !config.Enabled() {
		return nil, nil
	}
	a := &Authenticator{config: config, now: time.Now}
	var err error
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if config.JWTKeys != "" {
		if a.tokens, err = openKeys(&config, client, bad); err != nil {
			return nil, err
		}
	}
	if config.APIKeys != "" {
		if a.keys, err = watchfile.Open("auth.api_keys", config.APIKeys, bad, security.ParseAPIKeys); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Principal returns who sends a request: "" for an anonymous sender, if those are accepted. The error
// wraps [security.ErrUnauthenticated] or [ErrUnavailable]. For a nil Authenticator, every sender is anonymous.
func (a *Authenticator) Principal(r *http.Request) (string, error) {
	if a == nil {
		return "", nil
	}
	values := r.Header["Authorization"]
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: Authorization is given more than once", security.ErrUnauthenticated)
	case len(values) == 1:
		return a.bearer(r.Context(), values[0])
	case a.config.ClientCertificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		return a.certificate(r.TLS)
	case a.config.Anonymous:
		return "", nil
	}
	return "", fmt.Errorf("%w: %s", security.ErrUnauthenticated, a.accepts())
}

// accepts describes what a sender can do to be authenticated.
func (a *Authenticator) accepts() string {
	const header, certificate = "send a token or an API key in the header Authorization: Bearer", "present a client certificate"
	switch bearer := a.tokens != nil || a.keys != nil; {
	case bearer && a.config.ClientCertificates:
		return header + ", or " + certificate
	case a.config.ClientCertificates:
		return certificate
	}
	return header
}

// bearer returns the principal of a token or an API key.
func (a *Authenticator) bearer(ctx context.Context, header string) (string, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > security.MaxToken {
		return "", fmt.Errorf("%w: the header Authorization must be Bearer and a token of at most %d bytes", security.ErrUnauthenticated, security.MaxToken)
	}
	if strings.HasPrefix(token, security.APIKeyPrefix) {
		if a.keys != nil {
			if principal := a.keys.Get(a.now())[sha256.Sum256([]byte(token))]; principal != "" {
				return principal, nil
			}
		}
		return "", fmt.Errorf("%w: the API key is not known", security.ErrUnauthenticated)
	}
	switch {
	case a.tokens != nil:
	case a.keys != nil:
		return "", fmt.Errorf("%w: only API keys are accepted here, and they begin with %s", security.ErrUnauthenticated, security.APIKeyPrefix)
	default:
		return "", fmt.Errorf("%w: tokens are not accepted here", security.ErrUnauthenticated)
	}
	return a.token(ctx, token)
}

// certificate returns the principal of a verified certificate. Its times are checked for each request,
// because a connection can outlive them.
func (a *Authenticator) certificate(state *tls.ConnectionState) (string, error) {
	c := state.PeerCertificates[0]
	if now := a.now(); now.After(c.NotAfter) || now.Before(c.NotBefore) {
		return "", fmt.Errorf("%w: the certificate is valid from %s to %s only", security.ErrUnauthenticated, c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
	}
	name := certificateName(c)
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("%w: the certificate names no principal: %w", security.ErrUnauthenticated, err)
	}
	return "tls:" + name, nil
}

// certificateName returns the first URI of a certificate, such as a SPIFFE id, or its common name.
func certificateName(c *x509.Certificate) string {
	if len(c.URIs) > 0 {
		return c.URIs[0].String()
	}
	return c.Subject.CommonName
}

// checkName refuses a name that is empty or would not fit into a principal.
func checkName(name string) error {
	return sharding.CheckID("the name", name, sharding.MaxPrincipalLen-len("tls:"))
}

// token returns the principal of a token. What was verified once is remembered until the token ends or
// the keys change.
func (a *Authenticator) token(ctx context.Context, token string) (string, error) {
	now := a.now()
	set, err := a.tokens.get(ctx, now, false)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	hash := sha256.Sum256([]byte(token))
	if v, ok := a.known.get(hash); ok && v.set == set && now.Before(v.end) {
		return v.principal, nil
	}
	parsed, err := jwt.ParseSigned(token, allAlgorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return "", fmt.Errorf("%w: the token is not a JSON Web Token with an asymmetric signature", security.ErrUnauthenticated)
	}
	header := parsed.Headers[0]
	keys := set.find(header.KeyID)
	if len(keys) == 0 {
		if set, err = a.tokens.get(ctx, now, true); err != nil {
			return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if keys = set.find(header.KeyID); len(keys) == 0 {
			return "", fmt.Errorf("%w: the key of the token is not known", security.ErrUnauthenticated)
		}
	}
	var claims jwt.Claims
	tried, proven := false, false
	for _, key := range keys {
		// The key lists its algorithms. The token must not choose another one.
		if slices.Contains(key.can, jose.SignatureAlgorithm(header.Algorithm)) && !proven {
			tried, claims = true, jwt.Claims{}
			proven = parsed.Claims(key.Key, &claims) == nil
		}
	}
	switch {
	case !tried:
		return "", fmt.Errorf("%w: the token is signed by another algorithm than its key is for", security.ErrUnauthenticated)
	case !proven:
		return "", fmt.Errorf("%w: the signature of the token is wrong", security.ErrUnauthenticated)
	}
	end, err := a.checkClaims(&claims, now)
	if err != nil {
		return "", fmt.Errorf("%w: %w", security.ErrUnauthenticated, err)
	}
	principal := "jwt:" + claims.Issuer + "#" + claims.Subject
	if err := sharding.CheckID("issuer and subject", principal, sharding.MaxPrincipalLen); err != nil {
		return "", fmt.Errorf("%w: %w", security.ErrUnauthenticated, err)
	}
	a.known.put(hash, verifiedToken{principal: principal, set: set, end: end})
	return principal, nil
}

// checkClaims checks what a token says, and returns when it ends.
func (a *Authenticator) checkClaims(c *jwt.Claims, now time.Time) (time.Time, error) {
	switch {
	case c.Issuer != a.config.JWTIssuer:
		return time.Time{}, errors.New("the token is of another issuer")
	case !c.Audience.Contains(a.config.JWTAudience):
		return time.Time{}, errors.New("the token is for another audience")
	case c.Expiry == nil:
		return time.Time{}, errors.New("the token has no end (exp)")
	case c.Subject == "":
		return time.Time{}, errors.New("the token has no subject (sub)")
	}
	end := c.Expiry.Time().Add(a.config.JWTSkew)
	if !now.Before(end) {
		return time.Time{}, errors.New("the token has expired")
	}
	for _, begin := range []*jwt.NumericDate{c.NotBefore, c.IssuedAt} {
		if begin != nil && now.Add(a.config.JWTSkew).Before(begin.Time()) {
			return time.Time{}, errors.New("the token is not valid yet")
		}
	}
	return end, nil
}

// maxVerified is the most tokens in each of two generations: some 200 bytes each.
const maxVerified = 4096

// verified remembers tokens: checking a signature takes much longer than a command.
type verified struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]verifiedToken
}

type verifiedToken struct {
	principal string
	set       *keySet // whose key has signed
	end       time.Time
}

func (v *verified) get(hash [sha256.Size]byte) (verifiedToken, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.now[hash]
	if !ok {
		if t, ok = v.old[hash]; ok {
			v.add(hash, t)
		}
	}
	return t, ok
}

func (v *verified) put(hash [sha256.Size]byte, t verifiedToken) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.add(hash, t)
}

// add keeps a token. When the younger generation is full, the older one is dropped.
func (v *verified) add(hash [sha256.Size]byte, t verifiedToken) {
	if v.now == nil || len(v.now) >= maxVerified {
		v.now, v.old = map[[sha256.Size]byte]verifiedToken{}, v.now
	}
	v.now[hash] = t
}
