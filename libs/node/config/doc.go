// Package config is the configuration of a service: one struct per service defines all keys, and [Load] fills it from a
// file, the environment and flags.
//
// [Load] starts with the defaults, which are the values that the struct has, then reads a YAML file, then the
// environment, then flags. region.passivate_after is ROOST_REGION_PASSIVATE_AFTER in the environment and
// --region.passivate-after as a flag. With an unknown key the service does not start. [Config] is the part that every
// service has.
//
// No configuration library is used. Such libraries merge maps of values, and a map lacks the data
// that good error messages need. These messages name the line, variable or flag that a wrong value
// comes from. They report a key that is given twice, and a key that belongs to another service. For
// an unknown key, they name the nearest known one. Nor does a map know which values are secret.
//
// # What this does not do
//
// A configuration is read once. Only a [Reloader] reads the file again, and its owner decides which keys that changes.
package config
