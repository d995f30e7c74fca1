package conn

import (
	"net"
	"syscall"
	"time"
)

// probes is the number of unanswered keepalive probes that make a connection dead.
const probes = 4

// Dialer returns a dialer whose connections fail when the peer has acknowledged nothing
// for about the time silence: neither sent data (TCP_USER_TIMEOUT, on Linux) nor, on an
// idle connection, keepalive probes. An attempt to connect takes at most connect.
func Dialer(connect, silence time.Duration) *net.Dialer {
	silence = max(silence, time.Second)
	return &net.Dialer{
		Timeout: connect,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: max(silence/2, time.Second), Interval: max(silence/(2*probes), time.Second), Count: probes,
		},
		Control: func(network, _ string, c syscall.RawConn) error {
			switch network {
			case "tcp", "tcp4", "tcp6":
				return userTimeout(c, silence)
			}
			return nil
		},
	}
}
