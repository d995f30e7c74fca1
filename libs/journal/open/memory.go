package open

import (
	"context"
	"fmt"
	"net/url"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/memory"
)

func init() { Backends.Register(inMemory{}, "memory") }

// inMemory is the store of journals in memory. Such a journal belongs to its process.
type inMemory struct{}

func errMemory(what string) error {
	return fmt.Errorf("%w: a journal in memory belongs to one process; %s", journal.ErrConfig, what)
}

func (inMemory) Check(u *url.URL) error {
	if u.Host != "" || u.Path != "" || u.Opaque != "" {
		return fmt.Errorf("%w: memory: takes nothing behind the colon", journal.ErrConfig)
	}
	return CheckParameters(u)
}

func (inMemory) Open(_ context.Context, _ string, cfg journal.Config) (journal.Backend, error) {
	return memory.New(cfg), nil
}

func (inMemory) Reader(context.Context, string, journal.Config) (journal.Reader, error) {
	return nil, errMemory("no other can read it")
}

func (inMemory) Upgrade(context.Context, string, journal.Config, bool) (bool, error) {
	return false, errMemory("there is nothing to upgrade")
}

func (inMemory) Activate(context.Context, string, journal.Config, int, bool) (bool, error) {
	return false, errMemory("there is nothing to upgrade")
}

func (inMemory) Snapshot(context.Context, string, journal.Config) (backup.Source, error) {
	return nil, errMemory("there is nothing to back up or to restore")
}

func (inMemory) Restore(context.Context, string, *backup.Reader, journal.Config, backup.Options) (backup.Restored, error) {
	return backup.Restored{}, errMemory("there is nothing to back up or to restore")
}
