package server

import (
	"errors"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// RememberConfig limits the starts of remembered entities, see [wakeup.StartConfig].
type RememberConfig struct {
	Strategy   string        `key:"region.remember_strategy" help:"how fast remembered entities are started. all: as fast as region.remember_limit allows. constant: region.remember_number entities of each type in every region.remember_frequency. With both strategies, the entities that were active last are started first"`
	Frequency  time.Duration `key:"region.remember_frequency" help:"with the strategy constant, the time between two starts of region.remember_number remembered entities of a type"`
	Number     int           `key:"region.remember_number" unit:"entities" help:"with the strategy constant, the number of remembered entities of a type that are started together"`
	Limit      int           `key:"region.remember_limit" unit:"entities" help:"with either strategy, the most remembered entities of a type that are being started at a time; further entities wait. So that commands go first, the starts use at most half of the loads that the journal and region.loads allow"`
	Held       int           `key:"region.remember_held" unit:"entities" help:"the most remembered entities in memory that wait for their start. Each takes some 150 bytes. The region reads further entities from the journal later"`
	Failing    int           `key:"region.remember_failing" unit:"entities" help:"the most remembered entities in memory that could not be started and wait for the next attempt. The region reads further entities from the journal again after region.remember_backoff_max"`
	BackOff    time.Duration `key:"region.remember_backoff" help:"time until the region starts a remembered entity again after the first failure: the entity could not be started, or it has died. The time doubles with each failure"`
	BackOffMax time.Duration `key:"region.remember_backoff_max" help:"longest time until the region tries again to start a remembered entity that could not be started"`
}

// ReminderConfig limits the firings of reminders, see [wakeup.Config].
type ReminderConfig struct {
	Held     int           `key:"region.reminders_held" unit:"reminders" help:"the most reminders in memory. The region holds a reminder in memory if the reminder is due soon, or if its command has failed. Each takes some 300 bytes, plus the input of its command. The region reads further reminders from the journal later"`
	Failing  int           `key:"region.reminders_failing" unit:"reminders" help:"the most reminders in memory whose command has failed. The region reads further ones from the journal again after region.reminders_refresh"`
	Blocked  int           `key:"region.reminders_blocked" unit:"reminders" help:"the most due reminders in memory that wait because another reminder of the same entity is firing. The region reads further ones from the journal again when that firing has ended"`
	Firings  int           `key:"region.reminders_firings" unit:"reminders" help:"the most reminders of a type whose commands run at a time; further reminders wait"`
	Entity   int           `key:"region.reminders_per_entity" unit:"reminders" help:"the most reminders that one entity may have set. If a command would set more, the region refuses the command as resource_exhausted"`
	Page     int           `key:"region.reminders_page" unit:"reminders" help:"number of reminders of a shard that the region reads from the journal at a time"`
	Refresh  time.Duration `key:"region.reminders_refresh" help:"time between two reads of the reminders that are due soon. With each read, the region also reads the clock of the journal's store"`
	Ahead    time.Duration `key:"region.reminders_ahead" help:"how long before its due time the region reads a reminder from the journal. At least twice region.reminders_refresh"`
	RetryMin time.Duration `key:"region.reminders_retry_min" help:"time until a reminder fires again after the first failure of its command. The time doubles with each failure"`
	RetryMax time.Duration `key:"region.reminders_retry_max" help:"longest time until a reminder whose command has failed fires again"`
}

func defaultRemember() RememberConfig {
	d := wakeup.DefaultStartConfig()
	return RememberConfig{
		Strategy: string(d.Strategy), Frequency: d.Frequency, Number: d.Number, Limit: d.Limit, Held: d.Wakes, Failing: d.Failing,
		BackOff: d.BackOff, BackOffMax: d.BackOffMax,
	}
}

func defaultReminders() ReminderConfig {
	d := wakeup.DefaultConfig()
	return ReminderConfig{
		Held: d.Wakes, Failing: d.FailingWakes, Blocked: d.BlockedWakes, Firings: d.Firings, Page: d.Page, Entity: turn.DefaultConfig().RemindersPerEntity, Refresh: d.Refresh, Ahead: d.Ahead, RetryMin: d.RetryMin, RetryMax: d.RetryMax,
	}
}

// setWakeups sets the configuration of wake-ups in the configuration of the core.
func (c *Config) setWakeups(core *region.Config) {
	core.Starts, core.Wakeups, core.Turn.RemindersPerEntity = c.starts(), c.wakeups(), c.Reminders.Entity
}

func (c *Config) starts() wakeup.StartConfig {
	r, s := &c.Remember, wakeup.DefaultStartConfig()
	s.Strategy, s.Frequency, s.Number, s.Limit = wakeup.Strategy(r.Strategy), r.Frequency, r.Number, r.Limit
	s.Wakes, s.Failing, s.BackOff, s.BackOffMax = r.Held, r.Failing, r.BackOff, r.BackOffMax
	return s
}

func (c *Config) wakeups() wakeup.Config {
	r, w := &c.Reminders, wakeup.DefaultConfig()
	w.Wakes, w.FailingWakes, w.BlockedWakes, w.Firings, w.Page = r.Held, r.Failing, r.Blocked, r.Firings, r.Page
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
			"Number", "region.remember_number", "Limit", "region.remember_limit", "Failing", "region.remember_failing", "Wakes", "region.remember_held",
			"BackOffMax", "region.remember_backoff_max", "BackOff", "region.remember_backoff", "Page", "a page"),
		named(wakeups.Validate(), "FailingWakes", "region.reminders_failing", "BlockedWakes", "region.reminders_blocked", "Firings", "region.reminders_firings", "Refresh", "region.reminders_refresh",
			"Ahead", "region.reminders_ahead", "RetryMin", "region.reminders_retry_min", "RetryMax", "region.reminders_retry_max",
			"Wakes", "region.reminders_held", "Page", "region.reminders_page"),
	)...)
}
