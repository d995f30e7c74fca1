package passivation

import "math"

// climber finds the part of the limit that the window should have, by hill climbing: it
// goes on in a direction while the share of touches that find their entity active rises,
// and turns when it falls.
type climber struct {
	HillClimbing
	every           float64 // touches between two steps
	touches, active int     // since the last step
	lastRate        float64
	step            float64 // the next one, unless the rate falls
}

func newClimber(h HillClimbing) *climber {
	return &climber{HillClimbing: h, step: -h.InitialStep} // at first the window shrinks
}

func (c *climber) setLimit(n int) { c.every = c.AdjustMultiplier * float64(n) }

// touched counts a touch. It returns by how much the window's part is to change: 0 if it is
// not time for a step.
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
