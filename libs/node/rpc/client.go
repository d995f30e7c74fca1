package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// Client sends messages of one process.
type Client struct {
	Cluster string
	Self    sharding.NodeID
	// Reach makes the requests.
	Reach Reach
	// Timeout bounds each call.
	Timeout time.Duration
}

// Reach returns what makes requests to the process at an address, and its base URL. The process has one of the
// roles.
type Reach func(roles control.Role, addr string) (client *http.Client, url string)

// Via reaches every process by the same client. url is nil for http:// before the address.
func Via(client *http.Client, url func(addr string) string) Reach {
	if url == nil {
		url = func(addr string) string { return "http://" + addr }
	}
	return func(_ control.Role, addr string) (*http.Client, string) { return client, url(addr) }
}

// peer returns a client for the receiver of messages at an address.
func (c *Client) peer(addr string, msgs ...control.Message) controlv1.Control {
	client, url := c.Reach(control.Receivers(msgs...), addr)
	return controlv1.NewControlProtobufClient(url, client)
}

// Send brings one-way messages to a process. A UID of 0 means whichever incarnation is
// there.
func (c *Client) Send(ctx context.Context, to sharding.NodeID, msgs []control.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	_, err := c.peer(to.Addr, msgs...).Send(ctx, &controlv1.SendRequest{
		Cluster: c.Cluster, From: wire.ToNode(c.Self), To: uint64(to.UID), Messages: wire.EncodeAll(msgs),
	})
	return err
}

// named adds to the error of a listener that does not serve the control service what the listener may be.
func named(addr string, err error) error {
	var e twirp.Error
	if errors.As(err, &e) && e.Code() == twirp.BadRoute {
		return fmt.Errorf("%s is not the service listener of a coordinator or region; it may be a management listener or a gateway (discovery.url): %w", addr, err)
	}
	return err
}

// Call asks the process at an address, and returns its answer.
func (c *Client) Call(ctx context.Context, to string, m control.Message) (control.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := c.peer(to, m).Call(ctx, &controlv1.CallRequest{Cluster: c.Cluster, From: wire.ToNode(c.Self), Message: wire.Encode(m)})
	if err != nil {
		return nil, named(to, err)
	}
	answer, err := wire.Decode(r.GetMessage())
	if err != nil {
		return nil, err
	}
	if err := control.CheckAnswer(m, answer); err != nil {
		return nil, err
	}
	return answer, nil
}
