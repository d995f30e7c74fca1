// Package setting declares settings where they are used: a core's Config has its keys, help, units and ranges as
// tags on its fields, so there is one field, one default, one check and one name of each setting.
//
// # Tags
//
//	key:"mailbox"          the name, relative to the struct; without it, the field is not a setting
//	help:"…"               one line for --help; {.mailbox} is the full key of another field of the same struct
//	unit:"commands"        optional, for --help; durations and sizes name theirs
//	range:"1.."            the allowed values, see below; also on fields without a key
//	why:"…"                optional: the reason for the range, which ends the error of a value outside of it
//	secret:"true"          optional: never printed, and can be read from a file
//	secret:"url"           optional: a URL that may hold a secret, which can be read from a file too
//	nested:"true"          optional, for a map: in a configuration file, each value can be a section
//	expert:"true"          optional: listed apart, because few operators need it; on a struct, for all of its fields
//	expert:"idle,unit"     on a struct: for these keys, relative to the struct
//	omit:"timeout,idle"    on a struct: these keys, relative to the struct, are not settings here
//
// A struct field with a key prefixes the keys of its own fields ("region.routed" and "commands" make
// "region.routed.commands"); the fields of one without a key keep their keys. So a core does not know under which
// name a service has its settings, and two services can embed the same core under different names, each with
// its own defaults.
//
// # Ranges
//
// A range is `low..high`, `low..`, or with an excluded lower bound `>low` and `>low..high`. The bounds are written
// as values of the field: 1, 0.5, 250ms, 64KiB. [Ranges] checks them. Conditions between fields are code: the Validate
// method of a Config calls Ranges and adds problems made by [Errorf]. The struct that embeds a Config
// adds the prefix.
//
// # What this does not do
//
// It reads no files and no environment; package node does. It knows no default: each package has its DefaultConfig.
package setting
