// Package joiner brings a process into its cluster. It is the driver of package
// bootstrap: it asks discovery and contact points, answers as a contact point
// itself, and tells the membership where to join or that it may begin. Services
// have it between their discovery.url and their membership.
//
// # What this does not do
//
// It decides nothing; package bootstrap does. It does not keep a node in the
// cluster: the membership does. Contact points are asked with the TLS files of
// the node, but answer anyone whom the listener lets in.
package joiner
