// Package node is the life of a service's process: its main function, two listeners, health, and an ordered start and stop.
// A service's main has only its configuration, as of package config, and its stages:
//
//	func main() { os.Exit(node.Main("region", &cfg, setup)) }
//
// # Life cycle
//
// [Run] binds both listeners, serves the management listener, calls the service's setup,
// serves the service listener, and starts the stages in order. When its context is done
// or a stage fails, /readyz answers 503 and the stages stop in reverse order, each within
// its timeout; then the listeners are closed and telemetry is flushed.
//
// # What this does not do
//
// It knows nothing of clusters, shards or entities, and authenticates clients only by TLS
// certificates, which package security verifies. Calls to other processes are made by package rpc, and package telemetry has
// the log and the metrics. Most of the configuration is read only once: when files change, only the TLS files and the keys
// that the service gives to [Node.Reread] are read again.
package node
