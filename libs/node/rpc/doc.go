// Package rpc carries calls between the processes of a cluster. [Peers] connects to other processes by TLS, and verifies
// who they are. [Client], [Handler] and [Outbox] carry the messages of package control, as calls of the service
// roost.control.v1; they know no kinds of messages: a driver gives them what its core sends, and gets what its core
// receives.
//
// # What this does not do
//
// It does not guarantee delivery and repeats nothing: the cores repeat what must arrive.
package rpc
