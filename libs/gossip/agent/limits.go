package agent

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/bounded"
)

// limits are enforced on a post before it is decoded.
func (c *Config) limits() bounded.Limits {
	return bounded.Limits{Body: c.MaxBody, Lists: map[protoreflect.FullName]int{
		"roost.cluster.v1.PostRequest.messages": c.Inbox,
		"roost.cluster.v1.State.members":        c.Core.MaxMembers,
	}}
}

// compactClient sends posts in fewer bytes: without headers that are not used,
// which are longer than most posts, and compressed from a length on.
type compactClient struct {
	client   *http.Client
	gzipFrom int64 // bytes
}

// Do sends a request that Twirp made: its body is in memory.
func (c compactClient) Do(req *http.Request) (*http.Response, error) {
	req.Header.Del("Accept")
	req.Header.Del("Twirp-Version")
	req.Header.Set("User-Agent", "") // suppresses the default
	if req.ContentLength < c.gzipFrom {
		return c.client.Do(req)
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed) // enough: most of it is repeated names
	if err == nil {
		_, err = io.Copy(w, req.Body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing a post: %w", err)
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(b.Len())
	req.Header.Set("Content-Encoding", "gzip")
	return c.client.Do(req)
}
