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

// ErrWrongAddress is wrapped when a URL leads to something other than expected, for example to the public API of a
// gateway instead of the management listener of a coordinator.
var ErrWrongAddress = errors.New("the wrong address")

const (
	// identifyTimeout limits each request of Identify.
	identifyTimeout = 2 * time.Second
	// maxIdentity limits how much of an answer Identify reads, in bytes.
	maxIdentity = 64 << 10
)

// isForeign reports whether an error of a Twirp call means that the URL does not lead to a Twirp service of that
// name.
func isForeign(err error) bool {
	var e twirp.Error
	if !errors.As(err, &e) {
		return false
	}
	// A load balancer in between answers with other codes, for example unavailable, if its service is down.
	other := e.Meta("http_error_from_intermediary") == "true" && (e.Code() == twirp.Unknown || e.Code() == twirp.Internal)
	return other || e.Code() == twirp.BadRoute
}

// wrongAddress returns the error that a URL does not lead to the expected listener, for example "the management
// listener of a coordinator". The error names the listener that it does lead to, if that is known.
func wrongAddress(ctx context.Context, o Options, url, expected string) error {
	found := "another service answers there"
	if is := Identify(ctx, o, url); is != "" {
		found = "that is " + is
	}
	return fmt.Errorf("%w: %s is not %s: %s", ErrWrongAddress, url, expected, found)
}

// CheckGateways returns an error that wraps [ErrWrongAddress] for the first URL that leads to a Roost listener
// other than the public API of a gateway. It ignores a URL without an answer, or with an answer of an unknown service.
func CheckGateways(ctx context.Context, o Options, urls []string) error {
	for _, url := range urls {
		if is := Identify(ctx, o, url); is != "" && is != aGateway {
			return wrongAddress(ctx, o, url, aGateway)
		}
	}
	return nil
}

// AnyGateway reports whether a gateway answers at one of the URLs.
func AnyGateway(ctx context.Context, o Options, urls []string) bool {
	return slices.ContainsFunc(urls, func(url string) bool { return Identify(ctx, o, url) == aGateway })
}

// aGateway is the result of Identify for the listener that receives commands.
const aGateway = "the public API of a gateway"

// Identify names the listener that a URL leads to, for example "the management listener of a gateway". It
// returns "" if that is not known, or if no answer comes within 2 s. The token of the options is not sent.
func Identify(ctx context.Context, o Options, url string) string {
	client := NewHTTP(Options{TLS: o.TLS}, identifyTimeout)
	var version struct{ Service string }
	if body := get(ctx, client, url+"/version"); json.Unmarshal(body, &version) == nil {
		if service, ok := strings.CutPrefix(version.Service, "roost-"); ok {
			return "the management listener of a " + service
		}
	}
	if serves(ctx, client, url+"/twirp/roost.gateway.v1.Entities/Ask") {
		return aGateway
	}
	if call := url + "/twirp/roost.control.v1.Control/Call"; serves(ctx, client, call) {
		var refusal struct{ Meta struct{ Role string } }
		if err := json.Unmarshal(request(ctx, client, http.MethodPost, call, "{}"), &refusal); err == nil && refusal.Meta.Role != "" {
			return "the service listener of " + refusal.Meta.Role
		}
	}
	return ""
}

// serves reports whether the URL leads to a method of a Twirp service. Such a method refuses a GET with an
// error of Twirp.
func serves(ctx context.Context, client *http.Client, url string) bool {
	var refusal struct{ Code string }
	return json.Unmarshal(get(ctx, client, url), &refusal) == nil && refusal.Code == string(twirp.BadRoute)
}

func get(ctx context.Context, client *http.Client, url string) []byte {
	return request(ctx, client, http.MethodGet, url, "")
}

func request(ctx context.Context, client *http.Client, method, url, body string) []byte {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxIdentity)) // a truncated answer is not JSON
	return answer
}
