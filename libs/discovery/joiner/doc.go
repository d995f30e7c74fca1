// Package joiner brings a process into its cluster. It is the driver of package
// bootstrap: it queries discovery and contact points, and is a contact point itself. It
// tells the membership either to join through certain members, or to form a cluster.
//
// # What this does not do
//
// It decides nothing; package bootstrap does. It does not keep a node in the
// cluster; the membership does. Requests to contact points use the TLS files of the
// node, but contact points answer every client that the listener accepts.
package joiner
