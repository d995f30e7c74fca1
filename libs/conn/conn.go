// Package conn makes network connections that detect silent failures ([Dialer]), and connections whose reads and writes
// do not wake the monitor of Go's runtime ([Wrap]).
//
// A machine that loses its power, or a firewall that forgets a connection, sends nothing. A connection of a [Dialer]
// fails when the peer acknowledges nothing for some time.
//
// A process that sleeps until a message comes, reads it, writes something and sleeps again, wakes more threads than
// the one that does this. The runtime announces every system call that may block to its monitor thread. The monitor
// then sleeps and wakes every 20 µs until nothing runs any more, and on a machine with few processors it takes the
// processor from the thread that has something to do. Reads and writes of the sockets of package net never block, so
// they need not be announced.
//
// # What this does not do
//
// It cannot detect that a peer has stopped serving while its kernel still answers: requests need deadlines of their
// own. The monitor is not replaced: timers and all other system calls wake it as before. It also preempts goroutines
// that run for more than 10 ms. In a process that has slept, that may begin only when the first timer is due.
// Where the system is not Linux, and in programs with the race detector, [Wrap] leaves connections as they are.
package conn

import "net"

// Plain returns the TCP connection of package net that nc is, or that [Wrap] has made nc from. It returns nil if
// something else is between the two, such as TLS.
func Plain(nc net.Conn) *net.TCPConn {
	switch c := nc.(type) {
	case *net.TCPConn:
		return c
	case interface{ plain() *net.TCPConn }:
		return c.plain()
	}
	return nil
}
