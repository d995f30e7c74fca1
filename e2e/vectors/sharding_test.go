package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	plane "github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
)

var shardingCases = map[string]runner{
	"shard_id":                 shardID,
	"murmur2":                  murmur2,
	"entity_script-001":        startsEmpty,
	"entity_script-005":        becomesActive,
	"coordinator_state":        coordinatorState,
	"protocol-001":             tooFewRegions,
	"protocol-003":             knownHome,
	"protocol-005":             homeOfLeaving,
	"protocol-007":             strategyFails,
	"protocol-009":             handOff,
	"protocol-011":             ownerDies,
	"protocol-013":             handOffTimesOut,
	"protocol-019":             shutdownTwice,
	"protocol-021":             removalMargin,
	"protocol-023":             failover,
	"protocol-027":             bufferFull,
	"protocol-029":             regionStops,
	"lease_heartbeat_interval": leaseInterval,
}

func shardID(raw []byte) error {
	var v struct {
		ID     string `json:"entity_id"`
		Shards uint32 `json:"number_of_shards"`
		Want   string `json:"classic_hash_extractor"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if got := strconv.Itoa(int(shardingtest.ShardOf(sharding.EntityID(v.ID), v.Shards))); got != v.Want {
		return fmt.Errorf("the shard of %q is %s, want %s", v.ID, got, v.Want)
	}
	return nil
}

// murmur2 compares all bits of a hash except the sign, which no shard depends on.
func murmur2(raw []byte) error {
	var v struct {
		Key  string `json:"value"`
		Want int32  `json:"expect"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	d := sharding.TypeDesc{Type: "T", Shards: 1 << 31, Rule: sharding.ShardRule{Method: sharding.ByMurmur2}}
	if got, want := d.ShardOf(sharding.EntityID(v.Key)).Index, uint32(v.Want)&0x7fffffff; got != want {
		return fmt.Errorf("the hash of %q is %#x, want %#x", v.Key, got, want)
	}
	return nil
}

// typeT has enough shards for every case.
func typeT() sharding.TypeDesc {
	return sharding.TypeDesc{Type: "T", Shards: 16, Commands: []sharding.CommandDesc{{Name: "Do"}}}
}

func newTurns() *turn.Machine {
	cfg := turn.DefaultConfig()
	cfg.Types = []turn.Type{{Desc: typeT()}}
	return turn.New(cfg)
}

func startsEmpty([]byte) error {
	if s := newTurns().Stats(); s.Entities != 0 {
		return fmt.Errorf("there are %d entities", s.Entities)
	}
	return nil
}

// becomesActive: an entity that is not remembered lives from its first command on.
func becomesActive([]byte) error {
	m, now := newTurns(), time.Unix(1_000_000, 0)
	id := sharding.EntityID("a")
	shard := sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(id, typeT().Shards)}
	m.Step(now, turn.Open{Shard: shard, Epoch: sharding.MakeEpoch(1, 1)}, nil)
	out := m.Step(now, turn.Deliver{Request: 1, Shard: shard, Env: &sharding.Envelope{
		Entity: sharding.Entity{Type: "T", ID: id}, Command: "Do", ID: "c1", Deadline: now.Add(time.Second),
	}}, nil)
	for _, o := range out {
		if l, ok := o.(turn.Load); ok {
			out = m.Step(now, turn.Loaded{Entity: l.Entity, Incarnation: l.Incarnation}, nil)
		}
	}
	ran := slices.ContainsFunc(out, func(o turn.Output) bool { _, ok := o.(*turn.Run); return ok })
	if n := m.Stats().Entities; n != 1 || !ran {
		return fmt.Errorf("there are %d entities, and after loading comes %v", n, out)
	}
	return nil
}

// told is a strategy that obeys the test.
type told struct{ to sharding.NodeID }

func (t *told) Allocate(allocation.View, sharding.ShardID) sharding.NodeID { return t.to }
func (t *told) Rebalance(allocation.View, []sharding.ShardID) []sharding.ShardID {
	return nil
}

// control is an active coordinator.
type control struct {
	m    *coordinator.Machine
	now  time.Time
	rows int // facts about shards so far
}

func newControl(change func(*coordinator.Config), facts ...coordinator.Fact) *control {
	cfg := coordinator.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	c := &control{m: coordinator.New(cfg), now: time.Unix(1_000_000, 0)}
	c.step(coordinator.Elected{Term: 7, Facts: facts})
	return c
}

// step takes an input in. Facts are durable at once.
func (c *control) step(in coordinator.Input) []coordinator.Output {
	out, stored := c.m.Step(c.now, in, nil), 0
	for _, o := range out {
		if p, ok := o.(coordinator.Persist); ok {
			stored++
			if _, row := p.Fact.(coordinator.RowFact); row {
				c.rows++
			}
		}
	}
	if stored > 0 {
		out = append(out, c.step(coordinator.Stored{Facts: stored})...)
	}
	return out
}

// told is a message of a process, call a call of one.
func (c *control) told(from sharding.NodeID, m plane.Message) []coordinator.Output {
	return c.step(coordinator.Received{From: from, Msg: m})
}

func (c *control) call(from sharding.NodeID, m plane.Message) []coordinator.Output {
	return c.step(coordinator.Received{From: from, Call: 1, Msg: m})
}

// pass lets time pass in ticks of 50 ms.
func (c *control) pass(d time.Duration) (all []coordinator.Output) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(50 * time.Millisecond)
		all = append(all, c.step(coordinator.Tick{})...)
	}
	return all
}

func region(name string) sharding.NodeID {
	n, _ := strconv.Atoi(name[1:])
	return sharding.NodeID{Addr: name + ":1", UID: sharding.NodeUID(n)}
}

func shard(name string) sharding.ShardID {
	n, _ := strconv.Atoi(name[1:])
	return sharding.ShardID{Type: "T", Index: uint32(n)}
}

func (c *control) register(name string) []coordinator.Output {
	c.step(coordinator.Member{Node: region(name), Name: name, Reachable: true})
	return c.call(region(name), plane.Register{Name: name, Types: []sharding.TypeDesc{typeT()}})
}

// row returns the row of a shard, and false if it has none.
func (c *control) row(name string) (sharding.Row, bool) {
	for _, r := range c.m.View().Rows {
		if r.Shard == shard(name) {
			return r, true
		}
	}
	return sharding.Row{}, false
}

// allocate lets a region serve a shard.
func (c *control) allocate(name string) error {
	c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard(name)})
	r, ok := c.row(name)
	if !ok || r.Owner.IsZero() {
		return fmt.Errorf("%s is not allocated: %v", name, c.m.View())
	}
	c.told(r.Owner, plane.ShardStarted{Shard: r.Shard, Epoch: r.Epoch})
	return nil
}

// owned is s1 at r1, with r2 to go to.
func owned() (*control, error) {
	c := newControl(nil)
	c.register("r1")
	if err := c.allocate("s1"); err != nil {
		return nil, err
	}
	c.register("r2")
	return c, nil
}

// coordinatorState brings about the events of a case, and compares which shards
// the regions own then. An event that changes nothing is rejected.
func coordinatorState(raw []byte) error {
	var v struct {
		Events [][]string
		Expect struct{ Regions map[string][]string }
		Error  string
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	strategy := &told{}
	c := newControl(func(cfg *coordinator.Config) { cfg.Strategy = strategy })
	for i, e := range v.Events {
		taken, err := c.event(strategy, e)
		if err != nil {
			return err
		}
		if reject := v.Error != "" && i == len(v.Events)-1; taken == reject {
			return fmt.Errorf("%v is taken: %v", e, taken)
		}
	}
	if v.Error != "" {
		return nil
	}
	got := map[string][]string{}
	for _, r := range c.m.View().Regions {
		for _, row := range c.m.View().Rows {
			if row.Owner == r.Node {
				got[r.Name] = append(got[r.Name], fmt.Sprintf("s%d", row.Shard.Index))
			}
		}
	}
	if !maps.EqualFunc(got, v.Expect.Regions, slices.Equal[[]string]) {
		return fmt.Errorf("the regions own %v, want %v", got, v.Expect.Regions)
	}
	return nil
}

// event brings about one event, and reports whether it changed anything.
func (c *control) event(strategy *told, e []string) (taken bool, err error) {
	known := func() bool {
		return slices.ContainsFunc(c.m.View().Regions, func(r coordinator.RegionView) bool { return r.Name == e[1] })
	}
	before := c.rows
	switch e[0] {
	case "RegionRegistered":
		reply, _ := c.register(e[1])[0].(coordinator.Reply)
		ack, ok := reply.Msg.(plane.RegisterAck)
		return !ok || ack.Refusal == "", nil // the first one declares the type
	case "ShardHomeAllocated":
		strategy.to = region(e[2])
		c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard(e[1])})
		c.pass(time.Second) // a released shard is given to any region that can take it
		if r, _ := c.row(e[1]); c.rows > before {
			c.told(r.Owner, plane.ShardStarted{Shard: r.Shard, Epoch: r.Epoch})
		}
		strategy.to = sharding.NodeID{}
		return c.rows > before, nil
	case "ShardHomeDeallocated":
		r, _ := c.row(e[1])
		c.told(r.Owner, plane.ShardStopped{Shard: r.Shard, Epoch: r.Epoch})
		return c.rows > before, nil
	case "RegionTerminated":
		was := known()
		c.step(coordinator.MemberGone{Node: region(e[1])})
		return was && !known(), nil
	}
	return false, fmt.Errorf("there is no event %s", e[0])
}

func tooFewRegions([]byte) error {
	c := newControl(func(cfg *coordinator.Config) { cfg.MinRegions = 3 })
	c.register("r1")
	c.register("r2")
	if out := c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard("s1")}); len(out) > 0 {
		return fmt.Errorf("GetShardHome gives %v", out)
	}
	c.register("r3")
	return c.allocate("s1")
}

// knownHome: the answer to GetShardHome is the table, which the asking process watches.
func knownHome([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	if out := c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard("s1")}); len(out) > 0 {
		return fmt.Errorf("GetShardHome gives %v", out)
	}
	out := c.call(region("r2"), plane.WatchTable{})
	reply, _ := out[0].(coordinator.Reply)
	table, ok := reply.Msg.(plane.TableChanged)
	if !ok || len(table.Delta.Rows) != 1 || table.Delta.Rows[0].Owner != region("r1") {
		return fmt.Errorf("a watch gives %v", out)
	}
	return nil
}

func homeOfLeaving([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	c.call(region("r1"), plane.GracefulShutdown{})
	if out := c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard("s1")}); len(out) > 0 {
		return fmt.Errorf("GetShardHome gives %v", out)
	}
	return nil
}

func strategyFails([]byte) error {
	strategy := &told{}
	c := newControl(func(cfg *coordinator.Config) { cfg.Strategy = strategy })
	c.register("r1")
	if out := c.told(sharding.NodeID{}, plane.GetShardHome{Shard: shard("s1")}); len(out) > 0 {
		return fmt.Errorf("GetShardHome gives %v", out)
	}
	strategy.to = region("r1")
	return c.allocate("s1")
}

// handOff: the owner receives HandOff only after all others have confirmed
// that they hold commands back.
func handOff([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	for _, o := range c.step(coordinator.DrainRegion{Region: region("r1").String()}) {
		send, _ := o.(coordinator.Send)
		if _, ok := send.Msg.(plane.HandOff); ok {
			return fmt.Errorf("%v receives HandOff before any other was notified", send.To)
		}
	}
	return nil
}

func ownerDies([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	c.call(region("r1"), plane.GracefulShutdown{})
	before, _ := c.row("s1")
	to, epoch := hosting(c.step(coordinator.MemberGone{Node: region("r1")}))
	if before.Phase != sharding.HandingOff || to != region("r2") || epoch <= before.Epoch {
		return fmt.Errorf("the row is %v, and after its owner died, %v is to host it at %v", before, to, epoch)
	}
	return nil
}

// hosting returns the region that is to host a shard, and the epoch.
func hosting(out []coordinator.Output) (to sharding.NodeID, at sharding.Epoch) {
	for _, o := range out {
		send, _ := o.(coordinator.Send)
		if m, ok := send.Msg.(plane.HostShard); ok {
			to, at = send.To, m.Epoch
		}
	}
	return to, at
}

func handOffTimesOut([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	c.call(region("r1"), plane.GracefulShutdown{})
	if to, _ := hosting(c.pass(60 * time.Second)); !to.IsZero() {
		return fmt.Errorf("%v is to host the shard", to)
	}
	return nil
}

func shutdownTwice([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	c.call(region("r1"), plane.GracefulShutdown{})
	out := c.call(region("r1"), plane.GracefulShutdown{})
	reply, _ := out[0].(coordinator.Reply)
	if _, ok := reply.Msg.(plane.ShutdownAck); len(out) != 1 || !ok {
		return fmt.Errorf("the second one gives %v", out)
	}
	return nil
}

func removalMargin([]byte) error {
	c, err := owned()
	if err != nil {
		return err
	}
	c.step(coordinator.MemberGone{Node: region("r1")})
	if r, _ := c.row("s1"); r.Owner != region("r1") {
		return fmt.Errorf("the shard is at %v at once", r.Owner)
	}
	return nil
}

// failover: a new coordinator repeats HostShard to every owner that it knows.
func failover([]byte) error {
	old, err := owned()
	if err != nil {
		return err
	}
	c := newControl(nil, facts(old.m.View())...)
	c.register("r1")
	if to, _ := hosting(c.pass(5 * time.Second)); to != region("r1") {
		return errors.New("r1 is not asked to host what it serves")
	}
	return nil
}

// facts are a new coordinator's fold of the facts that an old one showed.
func facts(v coordinator.View) (list []coordinator.Fact) {
	for _, t := range v.Types {
		list = append(list, coordinator.TypeFact{Desc: t})
	}
	for _, r := range v.Rows {
		list = append(list, coordinator.RowFact{Row: r})
	}
	return list
}

func regionStops([]byte) error {
	c := newControl(nil)
	c.register("r1")
	c.register("r2")
	for n := range 8 {
		if err := c.allocate(fmt.Sprintf("s%d", n)); err != nil {
			return err
		}
	}
	c.step(coordinator.MemberGone{Node: region("r2")})
	rows := c.m.View().Rows
	for _, r := range rows {
		if r.Owner != region("r1") {
			return fmt.Errorf("%v is at %v", r.Shard, r.Owner)
		}
	}
	if len(rows) != 8 || c.rows < 8+8+4 {
		return fmt.Errorf("%d shards, %d facts about them", len(rows), c.rows)
	}
	return nil
}

// rejected submits commands to a gateway that knows of no region and takes so
// many, and lists those that it turns away.
func rejected(buffer, commands int) []int {
	cfg := router.DefaultConfig()
	cfg.MaxTotal, cfg.MaxTotalBytes, cfg.MaxReplyBytes = buffer, 1<<30, 1<<40 // the case is about how many
	m, now := router.New(cfg), time.Unix(1_000_000, 0)
	var turned []int
	var out []router.Output
	for n := 1; n <= commands; n++ {
		out = m.Step(now, router.Submit{Request: router.RequestID(n), Env: &sharding.Envelope{
			Entity: sharding.Entity{Type: "T", ID: "a"}, Command: "Do", ID: sharding.CommandID(strconv.Itoa(n)),
		}}, out[:0])
		for _, o := range out {
			if f, ok := o.(router.Finish); ok && f.Reply.Outcome == sharding.NotApplied && f.Reply.Code == sharding.ResourceExhausted {
				turned = append(turned, int(f.Request))
			}
		}
	}
	return turned
}

// bufferFull: the new one is turned away, and here it gets an error.
func bufferFull(raw []byte) error {
	var v struct {
		Given struct {
			Size int `json:"buffer_size"`
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if got := rejected(v.Given.Size, v.Given.Size+1); !slices.Equal(got, []int{v.Given.Size + 1}) {
		return fmt.Errorf("turned away: %v", got)
	}
	return nil
}
