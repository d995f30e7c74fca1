// Package gateway is the pure core of what only gateways do: a [Shedder] refuses commands at
// the public edge before their bodies are read. The routing of commands is that of package
// router, which regions use too.
//
// # What this does not do
//
// It admits no commands, and does not know where they go.
package gateway
