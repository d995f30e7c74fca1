// Package security decides whom a process of a cluster talks to and what they may do, and records what operators do: TLS
// with certificates that are read again when they change, the identity in the certificate of a peer, deny-lists, the
// policy, the tokens of operators, the guard against requests of web pages of other origins, the addresses of clients that
// proxies forward, and the audit.
//
// A [Policy] defines the commands that a principal may send, and the entities that may receive them.
// Gateways and regions each have one. A gateway asks its Policy before it admits a command. A region
// asks its own Policy before it runs the command. Package auth finds the principals.
//
// # What this does not do
//
// It has no listeners and makes no requests: packages node and rpc do, with what they get here. It issues no certificates.
package security
