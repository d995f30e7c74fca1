// Package console answers the operators' questions to the active coordinator: what the cluster looks like, what the
// regions have in memory, what the journal has stored, and why the coordinator decided as it did. It reads the core
// inside the coordinator's loop, queries other processes, and reads the journal.
//
// # What this does not do
//
// It decides nothing, and changes nothing in the coordinator: it never steps the core. Requests that change something
// are in package server. The exception is [API.RetrySends], which passes a request on to the regions.
package console

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Core is the part of the coordinator's core that the console reads. *coordinator.Tenure implements it.
type Core interface {
	ActiveTerm() sharding.Term
	View() coordinator.View
	Steering() coordinator.SteeringView
	Quarantine() []coordinator.QuarantineView
	Shard(sharding.ShardID) (coordinator.ShardView, sharding.TypeDesc)
	Report(sharding.Entity) coordinator.ShardReport
	Hosts(sharding.EntityType) ([]coordinator.RegionName, error)
	OwnerOf(sharding.ShardID) sharding.NodeID
	ShardOf(sharding.Entity) sharding.ShardID
	MostLoaded(weights allocation.Weights, least float64) []coordinator.LoadedShard
	Propose(coordinator.PlanQuery) (coordinator.Proposal, error)
	FactsMissing() sharding.Entity
	Deleted() (what string, at time.Time)
}

// Journal is the part of the journal that the console reads. *commit.Journal implements it.
type Journal interface {
	journal.Pages
	List(context.Context, journal.ListRequest) ([]sharding.Entity, error)
	Load(context.Context, journal.LoadRequest) (journal.Loaded, error)
	History(context.Context, journal.HistoryRequest) (journal.History, error)
	Report(context.Context, sharding.ShardID) commit.Report
}

// Members is the membership as this process sees it. *agent.Agent implements it.
type Members interface {
	Members() gossip.View
	Losses() []agent.Loss
}

// Config holds the settings and dependencies of the console.
type Config struct {
	Cluster string
	Self    sharding.NodeID
	Name    string // of this process
	Weights allocation.Weights
	// QueryTimeout is the time that regions have to answer if a request names none.
	QueryTimeout time.Duration
	// ShowPayloads and TryCommands permit operators to see payloads and to send commands; see coordinator.show_payloads and
	// coordinator.try_commands.
	ShowPayloads, TryCommands bool
	// Strategy returns the allocation strategy that a text describes.
	Strategy func(text string) (allocation.Strategy, error)

	Log     *slog.Logger
	Members Members
	Peers   diagnosis.Peers
	// Journal returns the journal. It is called only after the loop has run.
	Journal func() Journal
	// Look runs f inside the coordinator's loop, and returns its error. LookActive does so only at the active
	// coordinator: at a standby, it returns an error that names the active one. f must not keep the core.
	Look, LookActive func(ctx context.Context, f func(Core) error) error

	// The following are called inside the loop.

	// Waiting returns the explanations that are not stored yet, and counts those that were dropped.
	Waiting func() (waiting [][]byte, dropped uint64)
	// ActiveAddr returns the address of the coordinator that is active as far as this standby knows; empty: none is.
	ActiveAddr func() string
	// LeaseUsable returns the reason why this process cannot use the lease; nil: it can.
	LeaseUsable func() error
}

// API implements the methods of the admin API that change nothing.
type API struct {
	cfg Config
	// readingExplanations has a place for one call that reads the stored explanations.
	readingExplanations chan struct{}
	// proposing is locked while a plan is made.
	proposing sync.Mutex
}

// New returns the API of one coordinator.
func New(cfg Config) *API { return &API{cfg: cfg, readingExplanations: make(chan struct{}, 1)} }

// unixMs returns a time in an answer; 0: the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
