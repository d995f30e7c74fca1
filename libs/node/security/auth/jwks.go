package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/roost-cluster/roost/libs/node/security/watchfile"
)

// Algorithms by the kind of key. All are asymmetric: a key that checks tokens cannot make any.
var (
	rsaAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	ecAlgorithms  = map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512}
	allAlgorithms = append(slices.Clone(rsaAlgorithms), jose.ES256, jose.ES384, jose.ES512, jose.EdDSA)
)

// minRSA is the fewest bits of an RSA key that is accepted.
const minRSA = 2048

// algorithms returns those that a key may be used with: its own, if it names one.
func algorithms(k *jose.JSONWebKey) ([]jose.SignatureAlgorithm, error) {
	var can []jose.SignatureAlgorithm
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return nil, fmt.Errorf("key %q has %d bits, at least %d are needed", k.KeyID, key.N.BitLen(), minRSA)
		}
		can = rsaAlgorithms
	case *ecdsa.PublicKey:
		can = []jose.SignatureAlgorithm{ecAlgorithms[key.Curve.Params().Name]}
	case ed25519.PublicKey:
		can = []jose.SignatureAlgorithm{jose.EdDSA}
	default:
		return nil, fmt.Errorf("key %q is not a public key", k.KeyID)
	}
	if k.Algorithm == "" {
		return can, nil
	}
	if !slices.Contains(can, jose.SignatureAlgorithm(k.Algorithm)) {
		return nil, fmt.Errorf("key %q names the algorithm %.20q, which it cannot be used with", k.KeyID, k.Algorithm)
	}
	return []jose.SignatureAlgorithm{jose.SignatureAlgorithm(k.Algorithm)}, nil
}

// keySet has the usable keys of an issuer.
type keySet struct {
	keys []usableKey
}

// usableKey is a key with the algorithms that it may be used with.
type usableKey struct {
	jose.JSONWebKey
	can []jose.SignatureAlgorithm
}

// parseKeySet reads a JSON Web Key Set. What cannot be used is ignored, as RFC 7517 (section 5) says, because the issuer
// may add keys for others: of unknown kinds or curves, for other uses, or malformed ones. A set without any key
// for signatures is an error, which names the reasons.
func parseKeySet(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	s := &keySet{}
	var errs []error
	for i, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := json.Unmarshal(raw, &k); err != nil {
			errs = append(errs, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		can, err := algorithms(&k)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.keys = append(s.keys, usableKey{k, can})
	}
	if len(s.keys) == 0 {
		return nil, errors.Join(append(errs[:min(len(errs), maxReasons)], errors.New("the JSON Web Key Set has no public key for signatures"))...)
	}
	return s, nil
}

// maxReasons is the most keys of a set whose errors are reported.
const maxReasons = 5

// find returns the keys that can have signed a token: those with the id that it names. There can be several, because an
// issuer may give one id to keys for different algorithms. A token that names none may be of the only key.
func (s *keySet) find(id string) (found []usableKey) {
	if id == "" && len(s.keys) == 1 {
		return s.keys
	}
	for _, k := range s.keys {
		if k.KeyID == id {
			found = append(found, k)
		}
	}
	return found
}

// keySource provides the keys of an issuer.
type keySource interface {
	// get returns the keys. If unknown is set, a token names a key that is not among them, and they
	// are requested again if they have not been a moment ago.
	get(ctx context.Context, now time.Time, unknown bool) (*keySet, error)
}

// fileKeys are keys from a file.
type fileKeys struct{ file *watchfile.File[*keySet] }

func (f fileKeys) get(_ context.Context, now time.Time, _ bool) (*keySet, error) {
	return f.file.Get(now), nil
}

// fetchTimeout and maxKeySet bound a request for keys.
const (
	fetchTimeout = 5 * time.Second
	maxKeySet    = 1 << 20
)

// urlKeys are keys from a URL. They are requested when they are needed: one request at a time, and not
// more often than refresh says.
type urlKeys struct {
	url     string
	client  *http.Client
	refresh time.Duration
	maxAge  time.Duration
	bad     func(error)

	mu      sync.Mutex
	set     *keySet
	got     time.Time // when set came
	tried   time.Time // when the last request began
	err     error     // of the last request
	pending chan struct{}
}

func (u *urlKeys) get(ctx context.Context, now time.Time, unknown bool) (*keySet, error) {
	u.mu.Lock()
	old := u.set == nil || now.Sub(u.got) >= u.maxAge
	due := old || unknown || now.Sub(u.got) >= u.maxAge/2
	if due && u.pending == nil && (u.tried.IsZero() || now.Sub(u.tried) >= u.refresh) {
		u.tried, u.pending = now, make(chan struct{})
		go u.fetch(now)
	}
	wait := u.pending
	if wait != nil && (old || unknown) {
		u.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		u.mu.Lock()
	}
	defer u.mu.Unlock()
	if u.set == nil || now.Sub(u.got) >= u.maxAge {
		return nil, errors.Join(errors.New("the keys of the issuer are not known"), u.err)
	}
	return u.set, nil
}

// fetch requests the keys.
func (u *urlKeys) fetch(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	set, err := u.request(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err = err; err == nil {
		u.set, u.got = set, now
	} else {
		u.bad(err)
	}
	close(u.pending)
	u.pending = nil
}

func (u *urlKeys) request(ctx context.Context) (*keySet, error) {
	wrong := func(err error) (*keySet, error) { return nil, fmt.Errorf("auth.jwt_keys %s: %w", u.url, err) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
	if err != nil {
		return wrong(err)
	}
	res, err := u.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("auth.jwt_keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return wrong(fmt.Errorf("it answers %s", res.Status))
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet+1))
	if err != nil {
		return wrong(err)
	}
	if len(text) > maxKeySet {
		return wrong(fmt.Errorf("the answer is longer than %d bytes", maxKeySet))
	}
	set, err := parseKeySet(text)
	if err != nil {
		return wrong(err)
	}
	return set, nil
}

// openKeys returns the keys that auth.jwt_keys names.
func openKeys(c *Config, client *http.Client, bad func(error)) (keySource, error) {
	if strings.HasPrefix(c.JWTKeys, "https://") {
		return &urlKeys{url: c.JWTKeys, client: client, refresh: c.JWTRefresh, maxAge: c.JWTMaxAge, bad: bad}, nil
	}
	file, err := watchfile.Open("auth.jwt_keys", c.JWTKeys, bad, parseKeySet)
	return fileKeys{file}, err
}
