package etcd

import (
	"context"
	"net"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// files are the credentials of connections by TLS, whose files are read for each connection.
type files struct {
	credentials.TransportCredentials // with the files at the start
	from                             *backendurl.TLS
}

// useFiles has a client connect by TLS; nothing if from is nil.
func useFiles(c *clientv3.Config, from *backendurl.TLS) (err error) {
	if c.TLS, err = from.Config(); err == nil && c.TLS != nil {
		c.DialOptions = append(c.DialOptions, grpc.WithTransportCredentials(files{credentials.NewTLS(c.TLS), from}))
	}
	return err
}

// ClientHandshake implements [credentials.TransportCredentials].
func (f files) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.from.Config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements [credentials.TransportCredentials].
func (f files) Clone() credentials.TransportCredentials { return f }
