package sim

// weather holds the faults of a run. Every feature is on or off, often or
// rare, long or short, as drawn from the seed: leaving features out at random
// finds more than having all of them always.
type weather struct {
	Harsh  harshWeather  // zero in the classic climate
	Poison poisonWeather // zero but in the poisonous climate

	Warm  int64 // calm at the beginning, for the cluster to form
	Storm int64 // length of the faulty phase after that

	Loss, Dup float64 // of datagrams
	Delay     int64   // mean one-way delay
	Tail      float64 // share of packets that take up to TailMax
	TailMax   int64
	LinkBreak float64 // breaks of a link, per frame
	LinkFull  float64 // commands that find no room in a link at the moment
	HeldUp    float64 // commands that hold up the reader of a link
	Loop      int64   // mean time until a process gets to its inbox

	// Mean times between faults of a kind; 0: never.
	Cut, OneWay, Isolate, Bridge int64
	Island                       int64
	Crash, CrashAll, Pause       int64
	JournalDown, JournalCut      int64
	LeaseGone                    int64 // the lease record is lost
	Operate                      int64 // drain, resume, leave, move
	CutFor, PauseFor, DownFor    int64 // longest durations

	JournalDelay int64   // mean time of one way to the journal
	Kill         float64 // batches after whose commit the process dies
	Unknown      float64 // outcomes that are reported as unknown
	LateApply    float64 // unknown transactions that are applied later still
	Full         float64 // refused: store full
	FullAfter    float64 // the store is full for a while after an unknown outcome
	LeaseLoss    float64 // lost replies of the lease store
	DriftPPM     int64   // error of the clocks' rate
	Evidence     bool    // dead processes are noticed by refused dials

	Hang, Slow float64 // turns that hang, or take long
	Think      int64   // mean think time of a client
	Patience   int64   // mean deadline of a command
	Newer      float64 // additions by a command that only one version has
	Join       bool    // another region joins during the storm
	LateSecond bool    // the standby starts late

	// Forms: each version of the program stores events in a form of its own, which older
	// versions may not read.
	Forms   bool
	Look    int64 // mean time between two looks at shards that no region reads
	Rollout bool  // regions say their version, and operators choose a target
	Target  int64 // mean time between two choices

	// KeepEvents: so many records of the type with snapshots keep their events; 0: all; a setting.
	KeepEvents int
	SendPause  int64   // the pause before a send is retried; 0: short ones; a setting
	Remember   bool    // journaled entities are remembered; a setting
	StartFails float64 // start hooks that fail
	NoLoad     bool    // the first turn of a volatile entity makes its instance; a setting
	Sized      bool    // entities tell their sizes; a setting
	Collect    float64 // ticks of a shard core after which garbage was collected

	// Handoffs and HandoffsPerRegion are the most shards that move at a time; settings.
	Handoffs, HandoffsPerRegion int
	// Burden is by how much each shard of a region above burdenFrom makes each turn there longer.
	Burden int64

	Cores        int   // shard cores of a region
	BetweenCores int64 // mean time of a message between cores of a region
}

// climate is a set of kinds of weather. Climates differ in their code and share
// their seeds: what one draws does not change what another one draws.
type climate string

const (
	// classic is lost messages, crashes, pauses, cuts, and a journal that loses
	// its answers.
	classic climate = "classic"
	// harsh is classic and what else machines do: see harshWeather.
	harsh climate = "harsh"
	// poisonous is classic with entities that end their regions: see poisonWeather.
	poisonous climate = "poisonous"
)

var climates = []climate{classic, harsh}

// harshWeather holds the faults of the harsh climate alone. Everything here is drawn from
// its own dice, so that classic seeds keep their runs.
type harshWeather struct {
	StoreHang int64   // mean time between times in which calls to the journal are not answered
	HangFor   int64   // longest of these
	HangEnds  float64 // share of such calls that end by a deadline; the others hang until the calm

	Flip    int64   // mean time between flipped bits in pages of the journal
	FlipFor int64   // longest time until one that is repaired is repaired
	PerByte int64   // time that a link needs for a byte of a reply; 0: replies have no sizes
	Deaf    float64 // answers before which a gateway stops to read for a while

	Stale   float64 // reads that are stale
	SendAge int64   // time that sends are tried; 0: for long
	Send    float64 // commands by which an entity sends others, of those that add numbers or set timers
	Forward float64 // keyed commands by which an entity sends one to another, of those that add numbers
	Circle  int64   // mean time between commands that ask each other's entities in a circle
	Crowd   int64   // mean time between crowds of commands
	Remind  float64 // commands that set reminders, of those that set timers
	// RemindEnd is the time between two reminders that ask others and are ended when they are due.
	RemindEnd int64
	Later     float64 // timers that outlast the passivation of idle entities
	Delete    float64 // commands that delete, of those that change something

	Retention int64 // length of an era of membership, after which removed nodes are forgotten; a setting
	Exile     int64 // mean time between times in which a member is cut off for longer than that
	ExileFor  int64 // longest of these

	Deprived         int64 // a region has no journal for so long, from the beginning of the storm on
	JournalFaultOnly bool  // nothing else happens

	Expires bool    // the journal keeps ids of commands for a short while
	Clocks  int64   // mean time between steps of clocks
	Timed   float64 // keys that carry a time
	Skewed  float64 // clients whose clock is wrong
}

// repliesHaveSizes reports whether links need time, and regions need memory, for replies.
func (h *harshWeather) repliesHaveSizes() bool { return h.PerByte > 0 }

func drawHarsh(seed uint64) harshWeather {
	var h harshWeather
	d := newDice(seed, "harsh hang")
	if d.chance(0.4) {
		h.StoreHang, h.HangFor = d.between(2*sec, 8*sec), d.between(2*sec, 15*sec)
		h.HangEnds = []float64{0, 0.5, 1}[d.IntN(3)]
	}
	d = newDice(seed, "harsh pages")
	if d.chance(0.3) {
		h.Flip, h.FlipFor = d.between(sec, 8*sec), d.between(sec, 10*sec)
	}
	d = newDice(seed, "harsh replies")
	if d.chance(0.5) {
		h.PerByte, h.Deaf = d.between(ms/1000, ms/50), d.Float64()*0.04
	}
	d = newDice(seed, "harsh entities")
	h.Stale, h.Later = d.Float64(), d.Float64()
	h.Remind = 0.5
	if d = newDice(seed, "harsh forwards"); d.chance(0.7) {
		h.Forward, h.Circle = d.Float64()/2, d.between(sec, 6*sec)
		if d.chance(0.3) {
			h.Crowd = d.between(sec, 6*sec)
		}
	}
	h.RemindEnd = newDice(seed, "harsh reminders").between(300*ms, 2*sec)
	h.Delete = 0.04
	d = newDice(seed, "harsh retention")
	if h.Retention = d.between(500*ms, 4*sec); d.chance(0.15) {
		h.Exile, h.ExileFor = d.between(2*sec, 8*sec), d.between(15*sec, 25*sec)
	}
	d = newDice(seed, "harsh deprived")
	if d.chance(0.1) {
		h.Deprived, h.JournalFaultOnly = d.between(30*sec, 40*sec), d.chance(0.6)
	}
	if h.JournalFaultOnly { // two entities that wait for each other are no fault of the journal
		h.Forward, h.Circle, h.Crowd = 0, 0, 0
	}
	d = newDice(seed, "harsh clocks")
	if h.Expires = d.chance(0.6); !h.Expires { // else keys may expire before they are used
		h.Send = 0.1
		if ages := newDice(seed, "harsh ages of sends"); ages.chance(0.5) {
			h.SendAge = ages.between(2*sec, 8*sec)
		}
	}
	if d.chance(0.7) {
		h.Clocks, h.Skewed = d.between(sec/2, 4*sec), d.Float64()
	}
	h.Timed = d.Float64()
	return h
}

func drawWeather(c climate, seed uint64) weather {
	w := drawClassic(seed)
	if c == poisonous {
		return drawPoison(w, seed)
	}
	if c == harsh {
		if w.Harsh = drawHarsh(seed); w.Harsh.Exile > 0 {
			w.Storm = max(w.Storm, 25*sec)
		}
	}
	if w.Harsh.Deprived > 0 {
		if w.Harsh.JournalFaultOnly {
			alone := harshWeather{Deprived: w.Harsh.Deprived, JournalFaultOnly: true, Retention: w.Harsh.Retention}
			w = w.calm()
			w.Harsh, w.Warm, w.LateSecond = alone, 6*sec, false
		}
		w.Storm = max(w.Storm, w.Harsh.Deprived)
	}
	// A region without a journal is to be replaced by any other.
	forms := newDice(seed, "forms")
	w.Forms = forms.chance(0.4) && w.Harsh.Deprived == 0
	if w.Forms && forms.chance(0.9) {
		w.Look = forms.between(sec/10, sec/2)
	}
	if trims := newDice(seed, "weather of trimmed entities"); c == harsh && trims.chance(0.7) {
		w.KeepEvents = 1 + trims.IntN(12)
	}
	sizes := newDice(seed, "weather of sizes")
	w.Sized, w.Collect = sizes.chance(0.6), []float64{0.02, 0.005}[sizes.IntN(2)]
	if remember := newDice(seed, "weather of remembered entities"); remember.chance(0.5) && !w.Harsh.JournalFaultOnly {
		w.Remember, w.StartFails = true, remember.Float64()*0.5
	}
	w.NoLoad = newDice(seed, "weather of volatile entities").chance(0.5)
	return w
}

func drawClassic(seed uint64) weather {
	d := newDice(seed, "weather")
	maybe := func(p float64, lo, hi int64) int64 {
		v := d.between(lo, hi)
		if d.chance(p) {
			return v
		}
		return 0
	}
	rate := func(p, hi float64) float64 {
		v := d.Float64() * hi
		if d.chance(p) {
			return v
		}
		return 0
	}
	w := weather{
		Warm: 4 * sec, Storm: d.between(8*sec, 20*sec),

		Loss: rate(0.5, 0.15), Dup: rate(0.5, 0.2),
		Delay: d.between(ms/2, 15*ms), Tail: rate(0.6, 0.2), TailMax: d.between(200*ms, 5*sec),
		LinkBreak: rate(0.5, 0.01), Loop: d.between(50_000, 2*ms),

		Cut: maybe(0.4, 2*sec, 10*sec), OneWay: maybe(0.4, 2*sec, 10*sec),
		Isolate: maybe(0.4, 2*sec, 10*sec), Bridge: maybe(0.4, 2*sec, 10*sec),
		Island: maybe(0.5, 2*sec, 8*sec),
		Crash:  maybe(0.6, 2*sec, 10*sec), CrashAll: maybe(0.1, 6*sec, 20*sec), Pause: maybe(0.6, 2*sec, 8*sec),
		JournalDown: maybe(0.3, 4*sec, 15*sec), JournalCut: maybe(0.4, 2*sec, 10*sec),
		LeaseGone: maybe(0.1, 5*sec, 15*sec),
		Operate:   maybe(0.8, sec, 6*sec),
		CutFor:    d.between(sec, 6*sec), PauseFor: d.between(sec, 8*sec), DownFor: d.between(200*ms, 5*sec),

		JournalDelay: d.between(ms/5, 20*ms), Unknown: rate(0.7, 0.05), Kill: rate(0.3, 0.005), LateApply: d.Float64(),
		Full: rate(0.2, 0.02), LeaseLoss: rate(0.5, 0.2),
		DriftPPM: d.between(0, 5000), Evidence: d.chance(0.7),

		Hang: rate(0.4, 0.005), Slow: rate(0.5, 0.05),
		Think: d.between(ms, 30*ms), Patience: d.between(500*ms, 6*sec),
		Join: d.chance(0.5), LateSecond: d.chance(0.3),
	}
	w.FullAfter = rate(0.2, 1)
	if d.chance(0.2) { // the storm begins before there is a cluster
		w.Warm = d.between(0, 2*sec)
	}
	if d.chance(0.3) { // long enough to be declared down
		w.CutFor, w.Storm = d.between(15*sec, 30*sec), max(w.Storm, 16*sec)
	}
	links := newDice(seed, "links")
	if links.chance(0.5) {
		w.LinkFull = links.Float64() * 0.05
	}
	if links.chance(0.5) {
		w.HeldUp = links.Float64() * 0.02
	}
	cores := newDice(seed, "weather of cores")
	if w.Cores = 1; cores.chance(0.5) {
		w.Cores = 3
	}
	w.BetweenCores = cores.between(50_000, 5*ms)
	budget := newDice(seed, "weather of the budget")
	w.Handoffs = []int{1, 3, 256}[budget.IntN(3)]
	w.HandoffsPerRegion = budget.IntN(3)
	versions := newDice(seed, "weather of versions")
	if versions.chance(0.5) {
		w.Newer = versions.Float64() * 0.7
	}
	rollouts := newDice(seed, "weather of rollouts")
	if w.Rollout = rollouts.chance(0.6); w.Rollout && rollouts.chance(0.7) {
		w.Target = rollouts.between(sec, 8*sec)
	}
	if d.chance(0.05) { // from time to time a fine day, so that slowness shows
		w.Loss, w.Dup, w.Tail, w.Unknown, w.LinkBreak, w.LinkFull, w.HeldUp = 0, 0, 0, 0, 0, 0, 0
	}
	return w
}

// calm is the weather of the last phase: nothing fails any more.
func (w weather) calm() weather {
	w.Loss, w.Dup, w.Tail, w.LinkBreak, w.LinkFull, w.HeldUp = 0, 0, 0, 0, 0, 0
	w.Delay, w.Loop, w.BetweenCores = min(w.Delay, 5*ms), min(w.Loop, ms), min(w.BetweenCores, ms)
	w.Cut, w.OneWay, w.Isolate, w.Bridge, w.Island = 0, 0, 0, 0, 0
	w.Crash, w.CrashAll, w.Pause, w.JournalDown, w.JournalCut, w.Operate = 0, 0, 0, 0, 0, 0
	w.Target, w.Look = 0, 0
	w.JournalDelay, w.Unknown, w.Full, w.FullAfter, w.LeaseLoss = min(w.JournalDelay, 5*ms), 0, 0, 0, 0
	w.Kill, w.LeaseGone, w.StartFails = 0, 0, 0
	w.Hang, w.Slow = 0, 0
	w.Harsh = harshWeather{Retention: w.Harsh.Retention, Expires: w.Harsh.Expires, Timed: w.Harsh.Timed, SendAge: w.Harsh.SendAge}
	return w
}
