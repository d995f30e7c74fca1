package server

import (
	"errors"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// RememberConfig says how remembered entities are started again, see [wakeup.StartConfig].
type RememberConfig struct {
	Strategy   string        `key:"region.remember_strategy" help:"all: remembered entities are started as fast as region.remember_limit allows; constant: region.remember_number of each type every region.remember_frequency. Those that were active last come first"`
	Frequency  time.Duration `key:"region.remember_frequency" help:"time between two starts of region.remember_number entities of a type, with the strategy constant"`
	Number     int           `key:"region.remember_number" unit:"entities" help:"entities of a type that are started at a time, with the strategy constant"`
	Limit      int           `key:"region.remember_limit" unit:"entities" help:"entities of a type that are being started, with either strategy; their loads take at most half of what the journal and region.loads allow, so that commands go first"`
	Held       int           `key:"region.remember_held" unit:"entities" help:"entities that are known to be next; the others are read from the journal later. Some 150 bytes each"`
	Failing    int           `key:"region.remember_failing" unit:"entities" help:"entities that could not be started and are kept in memory until they are tried again; further ones are read again after region.remember_backoff_max"`
	BackOff    time.Duration `key:"region.remember_backoff" help:"time until an entity that could not be started, or has died, is started again; it doubles with each failure"`
	BackOffMax time.Duration `key:"region.remember_backoff_max" help:"longest time until an entity that could not be started is tried again"`
}

// ReminderConfig bounds the firing of reminders, see [wakeup.Config].
type ReminderConfig struct {
	Held     int           `key:"region.reminders_held" unit:"reminders" help:"reminders in memory, because they are due soon or fail; the others are read from the journal later. Some 300 bytes each, and the input of the command"`
	Failing  int           `key:"region.reminders_failing" unit:"reminders" help:"reminders in memory whose command has failed; further ones are read again after region.reminders_refresh"`
	Blocked  int           `key:"region.reminders_blocked" unit:"reminders" help:"reminders in memory that are due and wait, because another one of their entity has its command run; further ones are read again when that has ended"`
	Firings  int           `key:"region.reminders_firings" unit:"reminders" help:"reminders of a type whose commands run at a time"`
	Entity   int           `key:"region.reminders_per_entity" unit:"reminders" help:"reminders of one entity that may stand; a command that would set more is refused as resource_exhausted"`
	Page     int           `key:"region.reminders_page" unit:"reminders" help:"reminders of a shard that are read at a time"`
	Refresh  time.Duration `key:"region.reminders_refresh" help:"time between two reads of the reminders that are due soon; the clock of the journal's store is looked at then"`
	Ahead    time.Duration `key:"region.reminders_ahead" help:"how long before they are due reminders are read; at least twice region.reminders_refresh"`
	RetryMin time.Duration `key:"region.reminders_retry_min" help:"time until a reminder whose command has failed is tried again; it doubles with each failure"`
	RetryMax time.Duration `key:"region.reminders_retry_max" help:"longest time until a reminder whose command has failed is tried again"`
}

func defaultRemember() RememberConfig {
	d := wakeup.DefaultStartConfig()
	return RememberConfig{
		Strategy: string(d.Strategy), Frequency: d.Frequency, Number: d.Number, Limit: d.Limit, Held: d.Rows, Failing: d.Failing,
		BackOff: d.BackOff, BackOffMax: d.BackOffMax,
	}
}

func defaultReminders() ReminderConfig {
	d := wakeup.DefaultConfig()
	return ReminderConfig{
		Held: d.Rows, Failing: d.FailingRows, Blocked: d.BlockedRows, Firings: d.Firings, Page: d.Page, Entity: turn.DefaultConfig().RemindersPerEntity, Refresh: d.Refresh, Ahead: d.Ahead, RetryMin: d.RetryMin, RetryMax: d.RetryMax,
	}
}

// setWakeups sets what the core needs to know of wake-ups.
func (c *Config) setWakeups(core *region.Config) {
	core.Starts, core.Wakeups, core.Turn.RemindersPerEntity = c.starts(), c.wakeups(), c.Reminders.Entity
}

func (c *Config) starts() wakeup.StartConfig {
	r, s := &c.Remember, wakeup.DefaultStartConfig()
	s.Strategy, s.Frequency, s.Number, s.Limit = wakeup.Strategy(r.Strategy), r.Frequency, r.Number, r.Limit
	s.Rows, s.Failing, s.BackOff, s.BackOffMax = r.Held, r.Failing, r.BackOff, r.BackOffMax
	return s
}

func (c *Config) wakeups() wakeup.Config {
	r, w := &c.Reminders, wakeup.DefaultConfig()
	w.Rows, w.FailingRows, w.BlockedRows, w.Firings, w.Page = r.Held, r.Failing, r.Blocked, r.Firings, r.Page
	w.Refresh, w.Ahead, w.RetryMin, w.RetryMax = r.Refresh, r.Ahead, r.RetryMin, r.RetryMax
	return w
}

// validateWakeups returns errors that name the keys instead of the fields of the cores.
func (c *Config) validateWakeups() error {
	starts, wakeups := c.starts(), c.wakeups()
	named := func(err error, keys ...string) error {
		if err == nil {
			return nil
		}
		return errors.New(strings.NewReplacer(append(keys, "wakeup: ", "")...).Replace(err.Error()))
	}
	var errs []error
	if c.Reminders.Entity <= 0 {
		errs = append(errs, errors.New("region.reminders_per_entity must be above 0"))
	}
	return errors.Join(append(errs,
		named(starts.Validate(), "StartConfig.", "", "Strategy", "region.remember_strategy", "Frequency", "region.remember_frequency",
			"Number", "region.remember_number", "Limit", "region.remember_limit", "Failing", "region.remember_failing", "Rows", "region.remember_held",
			"BackOffMax", "region.remember_backoff_max", "BackOff", "region.remember_backoff", "Page", "a page"),
		named(wakeups.Validate(), "FailingRows", "region.reminders_failing", "BlockedRows", "region.reminders_blocked", "Firings", "region.reminders_firings", "Refresh", "region.reminders_refresh",
			"Ahead", "region.reminders_ahead", "RetryMin", "region.reminders_retry_min", "RetryMax", "region.reminders_retry_max",
			"Rows", "region.reminders_held", "Page", "region.reminders_page"),
	)...)
}
