package node

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/control"
)

// CheckCertificate returns an error if the certificate of tls.cert is for another process than this one: then other
// processes would refuse this one.
func (n *Node) CheckCertificate(this control.Identity) error {
	files := n.peers.Files
	if files == nil {
		return nil
	}
	leaf, _, err := files.Own()
	if err != nil {
		return err
	}
	is, err := files.Identify(leaf)
	if err == nil {
		err = is.MaySpeakAs(this)
	}
	if err != nil {
		return fmt.Errorf("tls.cert %s: %w: other processes would refuse this one. Issue a certificate for it (roost auth cert new), or set node.name", n.config.TLS.Cert, err)
	}
	return nil
}

// observeCertificate publishes how long the certificate of the node is still valid, and has /readyz warn when it has
// expired. Without a certificate there is neither.
func (n *Node) observeCertificate() error {
	if n.peers.Files == nil {
		return nil
	}
	n.Ready("certificate", func(context.Context) error {
		_, expires, err := n.peers.Files.Own()
		if err == nil && time.Now().After(expires) {
			err = fmt.Errorf("it expired at %s, so others close and refuse the connections of this process: replace tls.cert and tls.key, which are read again by themselves", expires.UTC().Format(time.RFC3339))
		}
		if err != nil {
			return Warning(err) // whether the process should get traffic, the other checks find out
		}
		return nil
	})
	meter := n.MeterProvider().Meter("github.com/roost-cluster/roost/libs/node")
	_, err := meter.Float64ObservableGauge("roost.tls.certificate.remaining", metric.WithUnit("s"),
		metric.WithDescription("time until the certificate of tls.cert that is in use expires, or one of its chain does. Negative: it has expired"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			_, expires, err := n.peers.Files.Own()
			if err == nil {
				o.Observe(time.Until(expires).Seconds())
			}
			return err
		}))
	return err
}
