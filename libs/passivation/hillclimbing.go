package passivation

import "math"

// climber finds the proportion that the window should have, by hill climbing. It changes the
// proportion in steps. As long as the hit rate rises, it continues in the same direction, and
// when the rate falls, it turns round. The hit rate is the share of touches that find their
// entity active.
type climber struct {
	HillClimbing
	every           float64 // touches between two steps
	touches, active int     // touches since the last step, and how many of them found their entity active
	lastRate        float64 // the hit rate at the last step
	step            float64 // the next step, if the hit rate does not fall
}

func newClimber(h HillClimbing) *climber {
	return &climber{HillClimbing: h, step: -h.InitialStep} // at first the window shrinks
}

func (c *climber) setLimit(n int) { c.every = c.AdjustMultiplier * float64(n) }

// touched counts a touch. It returns by how much the proportion is to change; 0: it is not time
// for a step.
func (c *climber) touched(active bool) float64 {
	c.touches++
	if active {
		c.active++
	}
	if float64(c.touches) < c.every {
		return 0
	}
	rate := float64(c.active) / float64(c.touches)
	delta := rate - c.lastRate
	step := c.step
	if delta < 0 {
		step = -step
	}
	if math.Abs(delta) >= c.RestartThreshold {
		c.step = math.Copysign(c.InitialStep, step)
	} else {
		c.step = step * c.StepDecay
	}
	c.lastRate, c.touches, c.active = rate, 0, 0
	return step
}
