package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/roost-cluster/roost/libs/node/security"
)

var (
	rsaKey, _   = rsa.GenerateKey(rand.Reader, 2048)
	smallKey, _ = rsa.GenerateKey(rand.Reader, 1024)
	ecKey, _    = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	otherKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edKey, _ = ed25519.GenerateKey(rand.Reader)
)

func jwk(id, algorithm string, key crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: algorithm, Use: "sig"}
}

func keySetOf(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sign makes a token.
func sign(t *testing.T, algorithm jose.SignatureAlgorithm, id string, key any, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// claims returns usable claims, changed by f.
func claims(f func(c *jwt.Claims)) jwt.Claims {
	c := jwt.Claims{
		Issuer: "https://login.example", Subject: "anna", Audience: jwt.Audience{"other", "shop"},
		Expiry: jwt.NewNumericDate(epoch.Add(time.Hour)), IssuedAt: jwt.NewNumericDate(epoch),
	}
	if f != nil {
		f(&c)
	}
	return c
}

// rig is an Authenticator with a clock of its own.
type rig struct {
	*Authenticator
	t    *testing.T
	dir  string
	time time.Time
	bad  []string
}

func newRig(t *testing.T, change func(dir string, c *Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), time: epoch}
	c := DefaultConfig()
	c.JWTIssuer, c.JWTAudience, c.JWTKeys = "https://login.example", "shop", filepath.Join(r.dir, "jwks.json")
	r.write("jwks.json", keySetOf(t, jwk("rsa", "RS256", rsaKey), jwk("ec", "", ecKey), jwk("ed", "EdDSA", edKey)))
	if change != nil {
		change(r.dir, &c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.Authenticator, err = New(c, nil, func(err error) { r.bad = append(r.bad, err.Error()) }); err != nil {
		t.Fatal(err)
	}
	r.now = func() time.Time { return r.time }
	return r
}

// write replaces a file, with a time of change of its own.
func (r *rig) write(name string, text []byte) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.time = r.time.Add(2 * time.Second)
	if err := os.Chtimes(path, r.time, r.time); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ask(header string) (string, error) {
	req := httptest.NewRequest("POST", "/v1/Cart/a/Add", nil)
	if header != "" {
		req.Header.Set("Authorization", header)
	}
	return r.Principal(req)
}

// want checks the principal of a header, or with an empty principal that it is refused with a reason.
func (r *rig) want(header, principal, reason string) {
	r.t.Helper()
	got, err := r.ask(header)
	switch {
	case reason == "" && err != nil, got != principal:
		r.t.Errorf("principal %q, %v, want %q", got, err, principal)
	case reason != "" && (!errors.Is(err, security.ErrUnauthenticated) || !strings.Contains(err.Error(), reason)):
		r.t.Errorf("refused because %v, want %q", err, reason)
	}
}

func TestTokens(t *testing.T) {
	r := newRig(t, nil)
	const anna = "jwt:https://login.example#anna"
	good := sign(t, jose.RS256, "rsa", rsaKey, claims(nil))
	for range 2 { // the second time from memory
		r.want("Bearer "+good, anna, "")
		r.want("bearer "+sign(t, jose.ES256, "ec", ecKey, claims(nil)), anna, "")
		r.want("Bearer "+sign(t, jose.EdDSA, "ed", edKey, claims(nil)), anna, "")
	}
	part := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"rsa"}`))
	public, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct{ token, reason string }{
		"no signature":         {none + "." + part[1] + ".", "asymmetric"},
		"algorithm none":       {none + "." + part[1] + "." + part[2], "asymmetric"},
		"public key as secret": {sign(t, jose.HS256, "rsa", public, claims(nil)), "asymmetric"},
		"other algorithm":      {sign(t, jose.RS512, "rsa", rsaKey, claims(nil)), "another algorithm than its key"},
		"other key's id":       {sign(t, jose.ES256, "rsa", ecKey, claims(nil)), "another algorithm"},
		"same kind, other key": {sign(t, jose.ES256, "ec", otherKey, claims(nil)), "signature"},
		"unknown key":          {sign(t, jose.ES256, "none", ecKey, claims(nil)), "not known"},
		"no key id":            {sign(t, jose.ES256, "", ecKey, claims(nil)), "not known"},
		"other issuer":         {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Issuer = "https://login.example/" })), "another issuer"},
		"other audience":       {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Audience = jwt.Audience{"other"} })), "another audience"},
		"no audience":          {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Audience = nil })), "another audience"},
		"no end":               {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Expiry = nil })), "no end"},
		"no subject":           {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Subject = "" })), "no subject"},
		"long subject":         {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Subject = strings.Repeat("a", 300) })), "at most 256"},
		"expired":              {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(epoch.Add(-time.Minute)) })), "expired"},
		"not yet":              {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(epoch.Add(2 * time.Minute)) })), "not valid yet"},
		"issued in the future": {sign(t, jose.ES256, "ec", ecKey, claims(func(c *jwt.Claims) { c.IssuedAt = jwt.NewNumericDate(epoch.Add(time.Hour)) })), "not valid yet"},
		"changed payload":      {part[0] + "." + part[1] + "AA." + part[2], ""},
		"no token":             {"abc", "not a JSON Web Token"},
		"too long":             {strings.Repeat("a", security.MaxToken+1), "at most"},
		"empty":                {"", "Bearer and a token"},
		"API key":              {"roost_abc", "API key is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := r.ask("Bearer " + bad.token); got != "" || !errors.Is(err, security.ErrUnauthenticated) || !strings.Contains(err.Error(), bad.reason) {
				t.Errorf("principal %q, %v, want %q", got, err, bad.reason)
			}
		})
	}
	r.want("Basic YTpi", "", "Bearer")
	r.want("", "", "send a token or an API key")
	twice := httptest.NewRequest("GET", "/", nil)
	twice.Header["Authorization"] = []string{"Bearer " + good, "Bearer " + good}
	if _, err := r.Principal(twice); err == nil || !strings.Contains(err.Error(), "more than once") {
		t.Errorf("two headers: %v", err)
	}
	// What is remembered ends with the token.
	r.time = epoch.Add(time.Hour + 59*time.Second)
	r.want("Bearer "+good, anna, "")
	r.time = epoch.Add(time.Hour + time.Minute)
	r.want("Bearer "+good, "", "expired")
}

// TestKeyFileChanges: a key that was removed is not accepted any more, also for tokens that were; an
// unusable file changes nothing.
func TestKeyFileChanges(t *testing.T) {
	r := newRig(t, nil)
	old, fresh := sign(t, jose.ES256, "ec", ecKey, claims(nil)), sign(t, jose.ES256, "new", otherKey, claims(nil))
	r.want("Bearer "+old, "jwt:https://login.example#anna", "")
	r.write("jwks.json", []byte("{"))
	r.want("Bearer "+old, "jwt:https://login.example#anna", "")
	r.want("Bearer "+fresh, "", "not known")
	if len(r.bad) != 1 || !strings.Contains(r.bad[0], "auth.jwt_keys") {
		t.Errorf("reported %q, want one report of auth.jwt_keys", r.bad)
	}
	r.write("jwks.json", keySetOf(t, jwk("new", "", otherKey)))
	r.want("Bearer "+old, "", "not known")
	r.want("Bearer "+fresh, "jwt:https://login.example#anna", "")
}

func TestBadKeySets(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"no JSON":          {[]byte("hello"), "no JSON Web Key Set"},
		"no list":          {[]byte(`{}`), "no public key"},
		"empty":            {[]byte(`{"keys":[]}`), "no public key"},
		"symmetric":        {[]byte(`{"keys":[{"kty":"oct","kid":"s","k":"c2VjcmV0","alg":"HS256"}]}`), "not a public key"},
		"small RSA":        {keySetOf(t, jwk("small", "", smallKey)), "at least 2048"},
		"wrong algorithm":  {keySetOf(t, jwk("ec", "RS256", ecKey)), "cannot be used with"},
		"for encryption":   {keySetOf(t, jose.JSONWebKey{Key: rsaKey.Public(), KeyID: "e", Use: "enc"}), "no public key"},
		"a private key":    {keySetOf(t, jose.JSONWebKey{Key: ecKey, KeyID: "p"}), "not a public key"},
		"wrong curve name": {keySetOf(t, jwk("ec", "ES512", ecKey)), "cannot be used with"},
	} {
		if _, err := parseKeySet(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestUnknownKeys: keys of unknown kinds and curves, and entries that are not keys, are ignored (RFC 7517,
// section 5). The others of the set are used.
func TestUnknownKeys(t *testing.T) {
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(keySetOf(t, jwk("ec", "", ecKey), jwk("ed", "", edKey)), &set); err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{
		`{"kty":"OKP","crv":"X25519","kid":"1","x":"` + x + `"}`,
		`{"kty":"OKP","crv":"Ed448","kid":"2","x":"` + x + x + `"}`,
		`{"kty":"EC","crv":"secp256k1","kid":"3","x":"` + x + `","y":"` + x + `"}`,
		`{"kty":"AKP","alg":"ML-DSA-44","kid":"4","pub":"` + x + `"}`,
		`{"kty":"EC","crv":"P-256","kid":"5","x":"` + x + `","y":"` + x + `"}`, // no point of the curve
		`{"kty":"oct","kid":"6","k":"c2VjcmV0"}`, `{"kid":"7"}`, `{}`, `null`, `"text"`, `[]`,
		`{"kty":"EC","kid":7}`, `{"kty":"RSA","kid":"8","n":"AQAB"}`,
		// The id of another key, of another kind: the token's algorithm selects one.
		strings.Replace(string(set.Keys[1]), `"ed"`, `"ec"`, 1),
	} {
		for _, keys := range [][]json.RawMessage{append([]json.RawMessage{json.RawMessage(unknown)}, set.Keys...), append(append([]json.RawMessage{}, set.Keys...), json.RawMessage(unknown))} {
			text, err := json.Marshal(map[string]any{"keys": keys})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, nil)
			r.write("jwks.json", text)
			r.want("Bearer "+sign(t, jose.ES256, "ec", ecKey, claims(nil)), "jwt:https://login.example#anna", "")
			r.want("Bearer "+sign(t, jose.EdDSA, "ed", edKey, claims(nil)), "jwt:https://login.example#anna", "")
			if len(r.bad) != 0 {
				t.Errorf("with %s: %q", unknown, r.bad)
			}
		}
	}
	// Two keys with one id, of one kind: the signature decides.
	r := newRig(t, nil)
	r.write("jwks.json", keySetOf(t, jwk("a", "", ecKey), jwk("a", "", otherKey)))
	for _, key := range []*ecdsa.PrivateKey{ecKey, otherKey} {
		r.want("Bearer "+sign(t, jose.ES256, "a", key, claims(nil)), "jwt:https://login.example#anna", "")
	}
	third, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.want("Bearer "+sign(t, jose.ES256, "a", third, claims(nil)), "", "signature")
}

// TestKeysFromURL: keys are requested when one is unknown, but not more often than configured; when
// the URL stops answering, they are used until they are too old.
func TestKeysFromURL(t *testing.T) {
	var set atomic.Pointer[[]byte]
	var asked atomic.Int64
	give := func(text []byte) { set.Store(&text) }
	give(keySetOf(t, jwk("ec", "", ecKey)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if text := set.Load(); text != nil {
			_, _ = w.Write(*text)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	r := newRig(t, func(_ string, c *Config) { c.JWTKeys = server.URL })
	r.tokens.(*urlKeys).client = server.Client()
	token := func(id string, key *ecdsa.PrivateKey) string {
		return "Bearer " + sign(t, jose.ES256, id, key, claims(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(epoch.Add(100 * time.Hour)) }))
	}
	// settled waits until no request is on its way.
	settled := func() {
		for u := r.tokens.(*urlKeys); ; runtime.Gosched() {
			u.mu.Lock()
			done := u.pending == nil
			u.mu.Unlock()
			if done {
				return
			}
		}
	}
	old, fresh := token("ec", ecKey), token("new", otherKey)
	const anna = "jwt:https://login.example#anna"
	r.want(old, anna, "")
	give(keySetOf(t, jwk("new", "", otherKey)))
	r.want(fresh, "", "not known") // asked a moment ago
	r.time = r.time.Add(29 * time.Second)
	for range 100 {
		r.want(fresh, "", "not known")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the URL was asked %d times, want once", n)
	}
	r.time = r.time.Add(time.Second)
	r.want(fresh, anna, "")
	r.want(old, "", "not known") // the issuer has withdrawn its key
	set.Store(nil)
	r.time = r.time.Add(59 * time.Minute)
	r.want(fresh, anna, "") // asks concurrently
	settled()
	r.time = r.time.Add(2 * time.Minute)
	if _, err := r.ask(fresh); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "500") {
		t.Errorf("with keys that are too old: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	req.Header.Set("Authorization", fresh)
	if _, err := r.Principal(req); !errors.Is(err, ErrUnavailable) {
		t.Errorf("with a caller that has gone: %v", err)
	}
	settled()
	give([]byte(strings.Repeat(" ", maxKeySet+1)))
	r.time = r.time.Add(time.Hour)
	if _, err := r.ask(fresh); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("with a long answer: %v", err)
	}
	give(keySetOf(t, jwk("new", "", otherKey)))
	r.time = r.time.Add(time.Hour)
	r.want(fresh, anna, "")
}

func TestAPIKeys(t *testing.T) {
	key, line, err := security.NewAPIKey("billing")
	if err != nil {
		t.Fatal(err)
	}
	second, secondLine, _ := security.NewAPIKey("second")
	if strings.Contains(line, key) || !strings.HasPrefix(key, "roost_") {
		t.Fatalf("key %s with line %s", key, line)
	}
	r := newRig(t, func(dir string, c *Config) {
		c.JWTKeys, c.JWTIssuer, c.JWTAudience, c.APIKeys, c.Anonymous = "", "", "", filepath.Join(dir, "keys"), true
		if err := os.WriteFile(c.APIKeys, []byte("# keys\n\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	r.want("Bearer "+key, "key:billing", "")
	r.want("Bearer "+second, "", "not known")
	r.want("Bearer "+sign(t, jose.ES256, "ec", ecKey, claims(nil)), "", "only API keys are accepted here, and they begin with roost_")
	r.want("", "", "") // anonymous, but a wrong key is not anonymous
	r.write("keys", []byte(secondLine))
	r.want("Bearer "+key, "", "not known")
	r.want("Bearer "+second, "key:second", "")
	for text, want := range map[string]string{
		"billing":                        "a name and a SHA-256 hash",
		"billing abc":                    "hexadecimal digits",
		"bil*ling " + line[8:]:           "must not have",
		line + "\n" + "other" + line[7:]: "the hash of another name",
	} {
		if _, err := security.ParseAPIKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := security.NewAPIKey("a b"); err == nil {
		t.Error("a name with a blank is accepted")
	}
}

func TestClientCertificates(t *testing.T) {
	r := newRig(t, func(_ string, c *Config) {
		c.JWTKeys, c.JWTIssuer, c.JWTAudience, c.ClientCertificates = "", "", "", true
	})
	id, _ := url.Parse("spiffe://shop/billing")
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "billing"}, NotBefore: epoch, NotAfter: epoch.Add(time.Hour)}
	ask := func(chains ...[]*x509.Certificate) (string, error) {
		req := httptest.NewRequest("GET", "/", nil)
		req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: chains}
		return r.Principal(req)
	}
	chain := []*x509.Certificate{cert}
	if got, err := ask(chain); got != "tls:billing" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	cert.URIs = []*url.URL{id}
	if got, err := ask(chain); got != "tls:spiffe://shop/billing" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ask(); !errors.Is(err, security.ErrUnauthenticated) || !strings.HasSuffix(err.Error(), ": "+r.accepts()) || !strings.Contains(r.accepts(), "present a client certificate") {
		t.Errorf("a certificate that was not verified: %q, %v", got, err)
	}
	r.time = epoch.Add(2 * time.Hour)
	if got, err := ask(chain); !errors.Is(err, security.ErrUnauthenticated) || !strings.Contains(err.Error(), "2030-01-01T01:00:00Z") {
		t.Errorf("an expired certificate on an open connection: %q, %v", got, err)
	}
	r.time, cert.URIs, cert.Subject = epoch, nil, pkix.Name{}
	if got, err := ask(chain); !errors.Is(err, security.ErrUnauthenticated) {
		t.Errorf("a certificate without name: %q, %v", got, err)
	}
}

// TestNobodyIsAsked: without a way to authenticate, no header has an effect.
func TestNobodyIsAsked(t *testing.T) {
	a, err := New(DefaultConfig(), nil, nil)
	if a != nil || err != nil {
		t.Fatal(a, err)
	}
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("Authorization", "Bearer whatever")
	if got, err := a.Principal(req); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"jwt_issuer and jwt_audience must be set":               func(c *Config) { c.JWTKeys = "keys" },
		"jwt_keys is empty":                                     func(c *Config) { c.JWTIssuer = "a" },
		"is not protected":                                      func(c *Config) { c.JWTKeys, c.JWTIssuer, c.JWTAudience = "http://a", "a", "b" },
		"jwt_skew is 1h0m0s, must be 0 to 10m":                  func(c *Config) { c.JWTSkew = time.Hour },
		"jwt_max_age is 1s, must be at least twice jwt_refresh": func(c *Config) { c.JWTMaxAge = time.Second },
		"anonymous is set":                                      func(c *Config) { c.Anonymous = true },
		"policy is set":                                         func(c *Config) { c.Policy = "p" },
	} {
		c := DefaultConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.JWTKeys, c.JWTIssuer, c.JWTAudience = "/no/such/file", "a", "b" },
		func(c *Config) { c.APIKeys = "/no/such/file" },
	} {
		c := DefaultConfig()
		change(&c)
		if _, err := New(c, nil, nil); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
			t.Errorf("a missing file: %v", err)
		}
	}
}
