//go:build !unix

package node

import "net"

// backlogKnown reports whether pending knows.
const backlogKnown = false

// pending reports whether a listener has connections that are not accepted yet. Here, that is not known.
func pending(net.Listener) bool { return false }
