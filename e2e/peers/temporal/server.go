package main

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite" // registers itself
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"

	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
)

const (
	loopback = "127.0.0.1"
	store    = "sqlite"
	cell     = "active" // the name of the only cluster
)

// serveServer serves all services of Temporal on a new database in a directory.
func serveServer(dir string) error {
	database := &config.SQL{
		PluginName: store, DatabaseName: filepath.Join(dir, "temporal.db"),
		ConnectAttributes: map[string]string{"mode": "rwc", "cache": "private", "journal_mode": "wal", "synchronous": "2"},
	}
	if err := sqlite.SetupSchema(database); err != nil {
		return err
	}
	ns, err := sqlite.NewNamespaceConfig(cell, namespace, false, nil)
	if err != nil {
		return err
	}
	if err := sqlite.CreateNamespaces(database, ns); err != nil {
		return err
	}
	services := map[string]config.Service{}
	var frontend string
	for _, name := range temporal.DefaultServices {
		rpc := config.RPC{BindOnIP: loopback}
		for _, port := range []*int{&rpc.GRPCPort, &rpc.MembershipPort} {
			if *port, err = freePort(); err != nil {
				return err
			}
		}
		services[name] = config.Service{RPC: rpc}
		if name == "frontend" {
			frontend = fmt.Sprintf("%s:%d", loopback, rpc.GRPCPort)
		}
	}
	s, err := temporal.NewServer(
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(log.NewNoopLogger()),
		temporal.WithConfig(&config.Config{
			Global:   config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}},
			Services: services,
			Persistence: config.Persistence{
				DefaultStore: store, VisibilityStore: store, NumHistoryShards: 1, DataStores: map[string]config.DataStore{store: {SQL: database}},
			},
			ClusterMetadata: &cluster.Config{
				FailoverVersionIncrement: 10, MasterClusterName: cell, CurrentClusterName: cell,
				ClusterInformation: map[string]cluster.ClusterInformation{cell: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend}},
			},
			DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
			PublicClient:        config.PublicClient{HostPort: frontend},
			Archival:            config.Archival{History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"}},
			NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
				History: config.HistoryArchivalNamespaceDefaults{State: "disabled"}, Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
			}},
		}))
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	return peer.Serving(frontend)
}

// freePort returns a port without a listener. The server takes no listener.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
