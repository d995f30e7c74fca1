// Package dial makes TCP connections that notice when the other side is gone: a
// machine that lost its power, or a firewall that forgot the connection, says
// nothing.
//
// # What this does not do
//
// It cannot know that a peer whose kernel still answers has stopped serving: what
// waits for an answer needs a deadline of its own.
package dial

import (
	"net"
	"syscall"
	"time"
)

// probes is how many keepalive probes go unanswered before a connection is dead.
const probes = 4

// Dialer makes connections that fail when the peer has not acknowledged for about
// the time silence: what was sent (TCP_USER_TIMEOUT, on Linux), or, on one that is
// idle, keepalive probes. One attempt to connect takes as long as connect.
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
