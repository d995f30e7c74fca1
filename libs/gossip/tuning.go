package gossip

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/phi"
	"github.com/roost-cluster/roost/libs/setting"
)

// leastHeartbeat is the shortest interval between heartbeats: twice the tick of the agent, which bounds the precision.
const leastHeartbeat = 100 * time.Millisecond

// Tuning has the settings of suspicion and of the rates of gossip, with the keys of a service's configuration. All members
// need the same values, and compare them on joining. The tags belong to package setting.
type Tuning struct {
	// Fast and Detector are presets, see [ProfileOf].
	Fast     bool   `key:"fast" help:"preset of {.heartbeat_interval} and {.acceptable_pause}. true: 200 ms and 800 ms, for crashes that are noticed within about 1.3 s; false: 1 s and 3 s, for fewer heartbeats and less sensitivity to pauses. Those settings win if they are not 0" expert:"true"`
	Detector string `key:"detector" help:"how this node suspects a silent member. phi: judges the silence by how regular the member's heartbeats were, with the threshold 8. cloud: like phi, but with the threshold 12, for machines that share hosts. deadline: suspects when a heartbeat is overdue by {.acceptable_pause}. {.threshold} wins over the thresholds if it is not 0" expert:"true"`
	// Threshold, Heartbeat and Pause replace the values of the presets, if they are not 0.
	Threshold float64       `key:"threshold" range:"0..299" why:"phi never exceeds 300" help:"suspicion (phi) that makes a member unreachable. Lower: crashes are noticed earlier, but a busy machine causes more false suspicions. 0: the value of {.detector}. Not with deadline, which has no threshold. Must be the same on all members" expert:"true"`
	Heartbeat time.Duration `key:"heartbeat_interval" range:"0..1m" help:"time between two heartbeats, 0 or at least 100ms. Shorter: crashes are noticed earlier, but heartbeats take more processor time. 0: the value of {.fast}. Must be the same on all members" expert:"true"`
	Pause     time.Duration `key:"acceptable_pause" range:"0..1h" help:"time that a heartbeat may be overdue before suspicion begins to grow. Longer: pauses and lost heartbeats cause fewer false suspicions, but crashes are noticed later. Should be at least twice the time between heartbeats. 0: the value of {.fast}. Must be the same on all members" expert:"true"`

	MonitoredBy      int           `key:"monitored_by" unit:"members" range:"1.." help:"number of members that watch each member. More: a crash is noticed even if more watchers crash with it, but each member sends more heartbeats. Must be the same on all members" expert:"true"`
	Interval         time.Duration `key:"interval" range:"100ms..10s" why:"all members must see a change before unreachable members are declared down" help:"time between two rounds of gossip; while a change spreads, a third of it. Shorter: changes of the membership spread faster, but gossip takes more processor time. Must be the same on all members" expert:"true"`
	PreferUnseen     float64       `key:"prefer_unseen" range:"0..1" help:"probability (0 to 1) that a round of gossip goes to a member that has not seen the newest state. Higher: changes spread faster, but many members send to the same few. Must be the same on all members" expert:"true"`
	PreferUnseenUpTo int           `key:"prefer_unseen_up_to" unit:"members" range:"1.." help:"number of members beyond which {.prefer_unseen} decreases, to a tenth at three times the number. Higher: changes spread faster in large clusters, but members that are late get more gossip at once. Must be the same on all members" expert:"true"`
}

// DefaultTuning returns the defaults of the core, with the fast profile of services.
func DefaultTuning() Tuning {
	c := DefaultConfig()
	return Tuning{
		Fast: true, Detector: phiName,
		MonitoredBy: c.MonitoredBy, Interval: c.GossipInterval, PreferUnseen: c.PreferUnseen, PreferUnseenUpTo: c.PreferUnseenUpTo,
	}
}

// Profile returns the presets with the values that replace theirs.
func (t *Tuning) Profile() (Profile, error) {
	p, err := ProfileOf(t.Fast, t.Detector)
	if t.Threshold > 0 {
		p.Phi.Threshold = t.Threshold
	}
	if t.Heartbeat > 0 {
		p.Interval, p.Phi.FirstInterval = t.Heartbeat, t.Heartbeat
	}
	if t.Pause > 0 {
		p.Phi.Pause = t.Pause
	}
	if t.Detector == deadlineName {
		p.Deadline = phi.DeadlineConfig{Interval: p.Interval, Pause: p.Phi.Pause}
	}
	return p, err
}

// Apply sets the fields of the core. Validate returns what is wrong with them.
func (t *Tuning) Apply(c *Config) {
	c.Watch, _ = t.Profile()
	c.MonitoredBy, c.PreferUnseen, c.PreferUnseenUpTo = t.MonitoredBy, t.PreferUnseen, t.PreferUnseenUpTo
	c.GossipInterval, c.BusyInterval = t.Interval, t.Interval/3
}

// Validate returns an error that names every key with an unusable value, and the fix.
func (t *Tuning) Validate() error {
	errs := []error{setting.Ranges(t)}
	if _, err := t.Profile(); err != nil {
		errs = append(errs, setting.Errorf("detector", "has an unusable value: %w", err))
	}
	if t.Detector == deadlineName && t.Threshold != 0 {
		errs = append(errs, setting.Errorf("threshold", "is %v, but the detector deadline has no threshold; set it to 0, or choose the detector phi", t.Threshold))
	}
	if t.Heartbeat > 0 && t.Heartbeat < leastHeartbeat {
		errs = append(errs, setting.Errorf("heartbeat_interval", "is %v; choose 0 or at least %v, because members look at their clocks every 50ms", t.Heartbeat, leastHeartbeat))
	}
	return errors.Join(errs...)
}
