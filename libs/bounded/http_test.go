package bounded_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/test/archtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// table is a coordinator that answers with rows.
type table struct {
	controlv1.Control
	rows  []*controlv1.Row
	asked []string // clusters
}

func (s *table) Call(_ context.Context, req *controlv1.CallRequest) (*controlv1.CallResponse, error) {
	s.asked = append(s.asked, req.Cluster)
	return answered(s.rows), nil
}

func answered(rows []*controlv1.Row) *controlv1.CallResponse {
	table := &controlv1.Message_TableChanged{TableChanged: &controlv1.TableChanged{Rows: rows}}
	return &controlv1.CallResponse{Message: &controlv1.Message{Kind: table}}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func TestHandler(t *testing.T) {
	raw, err := proto.Marshal(&controlv1.CallRequest{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	const watch = "/twirp/roost.control.v1.Control/Call"
	const reports = "/twirp/roost.control.v1.Control/Send"
	empties := bytes.Repeat([]byte{0x22, 0}, 40_000)
	for _, c := range []struct {
		name, path, media, encoding string
		body                        []byte
		status                      int
		says                        string
	}{
		{"plain", watch, "application/protobuf", "", raw, 200, ""},
		{"with a parameter", watch, "Application/Protobuf; x", "", raw, 200, ""},
		{"compressed", watch, "application/protobuf", "gzip", zipped(raw), 200, ""},
		{"JSON", watch, "application/json", "", []byte(`{"cluster":"c"}`), 200, ""},
		{"compressed JSON", watch, "application/json", "gzip", zipped([]byte(`{"cluster":"c"}`)), 200, ""},
		{"too long", watch, "application/protobuf", "", make([]byte, 1<<20), 413, "more than 100000 bytes"},
		{"a bomb", watch, "application/protobuf", "gzip", zipped(make([]byte, 10<<20)), 413, "expand to more than 100000"},
		{"cut off", watch, "application/protobuf", "gzip", zipped(raw)[:20], 400, "unexpected EOF"},
		{"no gzip", watch, "application/protobuf", "gzip", raw, 400, "gzip"},
		{"other encoding", watch, "application/protobuf", "br", raw, 400, "send gzip"},
		{"malformed", watch, "application/protobuf", "", []byte{0xff}, 400, "not a valid protobuf"},
		{"empty elements", reports, "application/protobuf", "", empties, 413, "send it in parts"},
		{"empty elements of JSON", reports, "application/json", "", []byte(`{"messages":[` + strings.Repeat("{},", 20_000) + `{}]}`), 413, "send it in parts"},
		{"braces in a string", watch, "application/json", "", []byte(`{"cluster":"c` + strings.Repeat(`{\"`, 20_000) + `"}`), 200, ""},
		{"other path", "/twirp/roost.control.v1.Control/Nothing", "application/protobuf", "", empties, 404, "bad_route"},
	} {
		server := &table{}
		h := bounded.Limits{Body: 100_000}.Handler(controlv1.NewControlServer(server))
		r := httptest.NewRequest(http.MethodPost, c.path, bytes.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || (len(server.asked) > 0) != (c.status == 200) {
			t.Errorf("%s: %d %s, asked %q", c.name, w.Code, w.Body, server.asked)
		}
		number := map[int]string{400: "ROOST-1001", 413: "ROOST-1011"}[c.status]
		if !strings.Contains(w.Body.String(), `"error":"`+number) && number != "" {
			t.Errorf("%s: %s, want the number %s", c.name, w.Body, number)
		}
		if len(server.asked) > 0 && !strings.HasPrefix(server.asked[0], "c") {
			t.Errorf("%s: the service got %q", c.name, server.asked)
		}
	}
}

// TestKnownFields: a request in JSON with a field that its message does not have is refused, and the
// answer names the field and those that there are. A request in protobuf may have such a field.
func TestKnownFields(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)
	for _, c := range []struct {
		path, media, body string
		known             bool // the limits ask for known fields
		says              string
	}{
		{"Freeze", "application/json", `{"for":"1h"}`, true, `unknown field \"for\"; the fields are thaw, for_ms, until_unix_ms, dry_run, by, reason`},
		{"Freeze", "application/json; charset=utf-8", `{"for":"1h"}`, true, `unknown field \"for\"`},
		{"Freeze", "application/json", `{"for":"1h"}`, false, ""},
		{"Freeze", "application/json", `{"for_ms":"1000"}`, true, ""},
		{"Freeze", "application/json", `{"forMs":1000}`, true, ""},
		{"Freeze", "application/json", `{"for_ms":"1h"}`, true, "for_ms"},
		{"Freeze", "application/json", `{`, true, "the body is not a FreezeRequest"},
		{"Freeze", "application/protobuf", string(unknown), true, ""},
		{"Pin", "application/json", `{"pins":[{"type":"T","index":5}],"region":"r1"}`, true, `unknown field \"region\"; the fields are pins {type, index, region}, ahead, `},
		{"Pin", "application/json", `{"pins":[{"type":"T","shard":5}]}`, true, `unknown field \"shard\"`},
		{"Rollout", "application/json", `{"a":1}`, true, "the fields are none"},
		{"Nothing", "application/json", `{"a":1}`, true, "no handler"},
	} {
		h := bounded.Limits{Body: 1000, KnownFields: c.known}.Handler(adminv1.NewAdminServer(operator{}))
		r := httptest.NewRequest(http.MethodPost, adminv1.AdminPathPrefix+c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if ok := w.Code == 200; ok != (c.says == "") || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %q: %d %s, want %q", c.path, c.body, w.Code, w.Body, c.says)
		}
	}
}

// operator answers everything that the test asks.
type operator struct{ adminv1.Admin }

func (operator) Freeze(context.Context, *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	return &adminv1.SteerResponse{}, nil
}

// counted is a body that counts in a budget.
type counted struct{ *bounded.Body }

// TestDecodedIsCounted: requests that fit together as bodies are refused if they do not fit as messages. A request that
// is alone is always served, and what is refused is given back.
func TestDecodedIsCounted(t *testing.T) {
	message, err := proto.Marshal(&controlv1.SendRequest{Cluster: "c", Messages: slices.Repeat([]*controlv1.Message{{}}, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	for media, raw := range map[string][]byte{
		"application/protobuf": message,
		"application/json":     []byte(`{"cluster":"c","messages":[` + strings.Repeat("{},", 999) + `{}]}`),
	} {
		// There is room for three such bodies, but not for what two of them are decoded to.
		budget := bounded.NewBudget(int64(3*len(raw)), nil)
		send := func(inside func()) int {
			h := bounded.Limits{Body: 100_000}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside() }))
			body := budget.Body(io.NopCloser(bytes.NewReader(raw)))
			defer body.Release()
			r := httptest.NewRequest(http.MethodPost, "/twirp/roost.control.v1.Control/Send", counted{&body})
			r.Header.Set("Content-Type", media)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", media)
			}
			return w.Code
		}
		var second int
		if first := send(func() { second = send(func() {}) }); first != http.StatusOK || second != http.StatusTooManyRequests {
			t.Errorf("%s: the first request is answered %d, and another one meanwhile %d", media, first, second)
		}
		if n := budget.Used(); n != 0 {
			t.Errorf("%s: %d bytes are left", media, n)
		}
	}
}

// TestListsOfRequests: the elements of a list are counted before anything is decoded.
func TestListsOfRequests(t *testing.T) {
	l := bounded.Limits{Body: 100_000, Lists: map[protoreflect.FullName]int{"roost.control.v1.SendRequest.messages": 3}}
	for n, status := range map[int]int{3: http.StatusOK, 4: http.StatusRequestEntityTooLarge} {
		message, err := proto.Marshal(&controlv1.SendRequest{Cluster: "c", Messages: slices.Repeat([]*controlv1.Message{{}}, n)})
		if err != nil {
			t.Fatal(err)
		}
		for media, raw := range map[string]string{
			"application/protobuf": string(message),
			"application/json":     `{"cluster":"{[{", "messages" : [` + strings.Repeat(`{"x":[{},{},{},{},{}]},`, n-1) + `{}]}`,
		} {
			r := httptest.NewRequest(http.MethodPost, "/twirp/roost.control.v1.Control/Send", strings.NewReader(raw))
			r.Header.Set("Content-Type", media)
			w := httptest.NewRecorder()
			l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if w.Code != status || status != http.StatusOK && !strings.Contains(w.Body.String(), "SendRequest.messages has more than 3 elements: send it in parts") {
				t.Errorf("%d elements of %s: %d %s", n, media, w.Code, w.Body)
			}
		}
	}
}

// TestTwoHandlers: the inner handler gets the body that the outer one has read.
func TestTwoHandlers(t *testing.T) {
	server := &table{}
	wide, narrow := bounded.Limits{Body: 1000}, bounded.Limits{Body: 10}
	for _, c := range []struct {
		outer, inner bounded.Limits
		status       int
	}{{wide, wide, 200}, {wide, narrow, 413}, {narrow, wide, 413}} {
		h := c.outer.Handler(c.inner.Handler(controlv1.NewControlServer(server)))
		r := httptest.NewRequest(http.MethodPost, "/twirp/roost.control.v1.Control/Call", bytes.NewReader([]byte("\x0a\x0aabcdefghij")))
		r.Header.Set("Content-Type", "application/protobuf")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("limits %d and %d: %d %s", c.outer.Body, c.inner.Body, w.Code, w.Body)
		}
	}
}

// TestBomb: a body that expands too far takes memory in proportion to its compressed length.
func TestBomb(t *testing.T) {
	bomb := zipped(make([]byte, 256<<20))
	h := bounded.Limits{Body: 4 << 20}.Handler(controlv1.NewControlServer(&table{}))
	r := httptest.NewRequest(http.MethodPost, "/twirp/roost.control.v1.Control/Call", nil)
	r.Header.Set("Content-Type", "application/protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	archtest.Memory(t, archtest.MemoryFactor, len(bomb), func() {
		r.Body = io.NopCloser(bytes.NewReader(bomb))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("answered %d", w.Code)
		}
	})
}

// deep returns an answer of n bytes with as many empty rows as possible.
func deep(n int) []byte {
	rows := bytes.Repeat([]byte{0x1a, 0}, (n-20)/2)
	changed := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), rows)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), changed)
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func TestTransport(t *testing.T) {
	answer := func(status int, media string, body []byte) roundTrip {
		return func(*http.Request) *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(bytes.NewReader(body))}
		}
	}
	rows, err := proto.Marshal(answered(slices.Repeat([]*controlv1.Row{{Type: "T", Epoch: 1}}, 100)))
	if err != nil {
		t.Fatal(err)
	}
	const limit = 100_000
	for name, c := range map[string]struct {
		answer roundTrip
		rows   int
		refuse bool
	}{
		"good":           {answer(200, "application/protobuf", rows), 100, false},
		"too long":       {answer(200, "application/protobuf", make([]byte, limit+1)), 0, true},
		"empty elements": {answer(200, "application/protobuf", deep(limit)), 0, true},
		"long error":     {answer(500, "application/json", bytes.Repeat([]byte(" "), limit+1)), 0, true},
	} {
		client := &http.Client{Transport: bounded.Limits{Body: limit}.Transport(c.answer)}
		res, err := controlv1.NewControlProtobufClient("http://x", client).Call(t.Context(), &controlv1.CallRequest{})
		if len(res.GetMessage().GetTableChanged().GetRows()) != c.rows || (err != nil) != c.refuse || c.refuse && !errors.Is(err, bounded.ErrTooLarge) && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %d rows, error %v", name, len(res.GetMessage().GetTableChanged().GetRows()), err)
		}
	}
	client := &http.Client{Transport: bounded.Limits{Body: limit}.Transport(answer(200, "text/plain", make([]byte, limit)))}
	res, err := client.Get("http://x/file")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); len(b) != limit || err != nil {
		t.Errorf("as long as allowed: %d bytes, %v", len(b), err)
	}
}
