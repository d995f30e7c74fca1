// Package all links every backend of discovery, leases, the journal and telemetry into a program that imports it:
//
//	import _ "github.com/roost-cluster/roost/libs/backends/all"
//
// A program that uses few of them imports their packages instead, and stays smaller.
package all

import (
	_ "github.com/roost-cluster/roost/libs/discovery/consul"
	_ "github.com/roost-cluster/roost/libs/discovery/dns"
	_ "github.com/roost-cluster/roost/libs/discovery/etcd"
	_ "github.com/roost-cluster/roost/libs/discovery/file"
	_ "github.com/roost-cluster/roost/libs/discovery/kubernetes"
	_ "github.com/roost-cluster/roost/libs/discovery/static"
	_ "github.com/roost-cluster/roost/libs/journal/postgres"
	_ "github.com/roost-cluster/roost/libs/journal/sqlite"
	_ "github.com/roost-cluster/roost/libs/lease/consul"
	_ "github.com/roost-cluster/roost/libs/lease/etcd"
	_ "github.com/roost-cluster/roost/libs/lease/kubernetes"
	_ "github.com/roost-cluster/roost/libs/lease/memory"
	_ "github.com/roost-cluster/roost/libs/lease/sqlstore"
	_ "github.com/roost-cluster/roost/libs/node/telemetry/console"
	_ "github.com/roost-cluster/roost/libs/node/telemetry/otlpgrpc"
	_ "github.com/roost-cluster/roost/libs/node/telemetry/otlphttp"
)
