// Package node is what the services of Roost have in common: configuration, logs, two
// listeners, TLS, health, telemetry, and an ordered start and stop. A service's main has
// only its configuration and its stages:
//
//	func main() { os.Exit(node.Main("region", &cfg, setup)) }
//
// # Configuration
//
// One struct per service defines all keys. [Load] fills it: defaults (the values that
// the struct has), then a YAML file, then the environment, then flags.
// region.passivate_after is ROOST_REGION_PASSIVATE_AFTER in the environment and
// --region.passivate-after as a flag. With an unknown key the service does not start.
//
// A library such as koanf merges maps of values. Nearly all of the code here is about
// what a map has lost: the line, variable or flag that a value comes from, a key given
// twice, a key of another service's section, the nearest known name, a secret.
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
// It knows nothing of clusters, shards or entities, authenticates clients only by
// TLS certificates, and reloads no configuration but the TLS files.
package node
