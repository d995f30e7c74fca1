package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Random ports come from below the range that systems take ports of outgoing
// connections from (32768 on Linux, 49152 by the standard), so that no connection
// occupies the port of a process that is down for a moment.
const (
	lowPort  = 20000
	highPort = 32000
	// portTries bounds the search; on a machine with that few free ports
	// nothing else works either.
	portTries = 200
)

// A PortError reports that a fixed port is in use.
type PortError struct {
	Port    int
	Process string
}

func (e *PortError) Error() string {
	return fmt.Sprintf("port %d, meant for %s, is in use by another program; stop that, or take random ports", e.Port, e.Process)
}

// loopback is the default listen address of processes.
const loopback = "127.0.0.1"

// ports hands out addresses, no port twice.
type ports struct{ taken map[int]bool }

// fixed returns the address with the given port.
func (p *ports) fixed(host string, port int, process string) (string, error) {
	if p.taken[port] || !free(host, port) {
		return "", &PortError{Port: port, Process: process}
	}
	p.taken[port] = true
	return address(host, port), nil
}

// random returns an address with a free port.
func (p *ports) random(host string) (string, error) {
	for range portTries {
		port := lowPort + rand.N(highPort-lowPort)
		if !p.taken[port] && free(host, port) {
			p.taken[port] = true
			return address(host, port), nil
		}
	}
	return "", fmt.Errorf("no free port found between %d and %d", lowPort, highPort)
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// free reports whether a listener can be bound. Only errors that would also stop our
// process count as "in use". An address in another network is not ours to try.
func free(host string, port int) bool {
	listener, err := net.Listen("tcp", address(host, port))
	if err != nil {
		return errors.Is(err, syscall.EADDRNOTAVAIL)
	}
	return listener.Close() == nil
}
