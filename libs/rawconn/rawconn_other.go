//go:build !linux || race

package rawconn

import "net"

// Wrap returns nc.
func Wrap(nc net.Conn) net.Conn { return nc }
