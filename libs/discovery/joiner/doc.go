// Package joiner brings a process into its cluster. It is the driver of package
// bootstrap: it queries discovery and contact points, is a contact point itself, and
// tells the membership to join, and through which members, or to form a cluster.
//
// # What this does not do
//
// It decides nothing; package bootstrap does. It does not keep a node in the
// cluster; the membership does. Requests to contact points use the TLS files of the
// node, but contact points answer every client that the listener accepts.
package joiner
