// Package rpc carries calls between the processes of a cluster. [Peers] connects to other processes by TLS, and verifies
// their identity. [Client], [Handler] and [Outbox] carry the messages of package control, as calls of the service
// roost.control.v1. They do not interpret messages: a driver passes the outputs of its core to them, and receives the
// inputs.
//
// # What this does not do
//
// It does not guarantee delivery and repeats nothing: the cores repeat what must arrive.
package rpc
