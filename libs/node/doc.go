// Package node is what every service of Roost shares: configuration, logs, two
// listeners, TLS, health, telemetry and an ordered life from start to exit. A
// service's main names its configuration and its parts; the rest is here:
//
//	func main() { os.Exit(node.Main("region", &cfg, setup)) }
//
// # Configuration
//
// One struct per service is the source of all names. [Load] fills it: defaults
// (what the struct holds already), then a YAML file, then the environment, then
// flags; region.passivate_after is ROOST_REGION_PASSIVATE_AFTER and
// --region.passivate-after. An unknown key stops the start.
//
// # Life
//
// [Run] binds both listeners, serves the management one, calls the service's
// setup, serves the service listener, and starts the stages in order. When its
// context ends or a stage fails, /readyz turns 503, the stages stop in reverse
// order, each within its time, then the listeners close and telemetry is
// flushed.
//
// # What this does not do
//
// It knows nothing of clusters, shards or entities, authenticates nobody beyond
// TLS certificates, and reloads no configuration but the TLS files.
package node
