// Package node is the common part of the services of Roost: configuration, logs, two listeners,
// TLS, health, telemetry, and an ordered start and stop. A service's main has only its
// configuration and its stages:
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
// No configuration library is used. Such libraries merge maps of values, and a map lacks the data
// that good error messages need. These messages name the line, variable or flag that a wrong value
// comes from. They report a key that is given twice, and a key that belongs to another service. For
// an unknown key, they name the nearest known one. Nor does a map know which values are secret.
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
// certificates. Most of the configuration is read only once: when files change, only the TLS files
// and the keys that the service gives to [Node.Reread] are read again.
package node
