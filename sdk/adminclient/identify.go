package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twitchtv/twirp"
)

// ErrStranger is wrapped when the one that answered is not what it was taken for.
var ErrStranger = errors.New("the wrong address")

const (
	// identifyTimeout bounds the question who answers: it answers already.
	identifyTimeout = 2 * time.Second
	// maxIdentity bounds what is read of that answer, in bytes.
	maxIdentity = 64 << 10
)

// notOurs reports whether an error of a Twirp call says that no Twirp service of
// that name is there.
func notOurs(err error) bool {
	var e twirp.Error
	if !errors.As(err, &e) {
		return false
	}
	// What stands between, such as a load balancer, answers that it is unavailable.
	other := e.Meta("http_error_from_intermediary") == "true" && (e.Code() == twirp.Unknown || e.Code() == twirp.Internal)
	return other || e.Code() == twirp.BadRoute
}

// stranger explains that want, such as "the management listener of a
// coordinator", is not what a URL leads to.
func stranger(ctx context.Context, url, want string) error {
	found := "something else answers there"
	if is := Identify(ctx, url); is != "" {
		found = "that is " + is
	}
	return fmt.Errorf("%w: %s is not %s: %s", ErrStranger, url, want, found)
}

// CheckGateways says which of the URLs leads to something known that is no
// gateway's public API; it wraps ErrStranger.
func CheckGateways(ctx context.Context, urls []string) error {
	for _, url := range urls {
		if is := Identify(ctx, url); is != "" && is != aGateway {
			return stranger(ctx, url, aGateway)
		}
	}
	return nil
}

// AnyGateway reports whether a gateway answers at one of the URLs.
func AnyGateway(ctx context.Context, urls []string) bool {
	return slices.ContainsFunc(urls, func(url string) bool { return Identify(ctx, url) == aGateway })
}

// aGateway is what commands are sent to.
const aGateway = "the public API of a gateway"

// Identify returns what a URL leads to, such as "the management listener of a
// gateway", or nothing if that is not known.
func Identify(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	var version struct{ Service string }
	if body := get(ctx, url+"/version"); json.Unmarshal(body, &version) == nil {
		if service, ok := strings.CutPrefix(version.Service, "roost-"); ok {
			return "the management listener of a " + service
		}
	}
	if serves(ctx, url+"/twirp/roost.gateway.v1.Entities/Ask") {
		return aGateway
	}
	if call := url + "/twirp/roost.control.v1.Control/Call"; serves(ctx, call) {
		var refusal struct{ Meta struct{ Role string } }
		if err := json.Unmarshal(request(ctx, http.MethodPost, call, "{}"), &refusal); err == nil && refusal.Meta.Role != "" {
			return "the service listener of " + refusal.Meta.Role
		}
	}
	return ""
}

// serves reports whether a Twirp service is at the URL: Twirp itself refuses a GET, as
// one of its errors.
func serves(ctx context.Context, url string) bool {
	var refusal struct{ Code string }
	return json.Unmarshal(get(ctx, url), &refusal) == nil && refusal.Code == string(twirp.BadRoute)
}

func get(ctx context.Context, url string) []byte { return request(ctx, http.MethodGet, url, "") }

func request(ctx context.Context, method, url, body string) []byte {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxIdentity)) // what is cut off is no JSON
	return answer
}
