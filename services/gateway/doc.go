// Package gateway is the pure core of the gateways' own work: a [Shedder] refuses commands at the public
// edge before their bodies are read. Package router, which regions use too, routes commands.
//
// # What this does not do
//
// It admits no commands, and does not know where they go.
package gateway
