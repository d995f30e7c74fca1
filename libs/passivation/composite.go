package passivation

// composite lets new entities into a window first. An entity that the window evicts is a
// candidate for the main area. It gets in if there is room, or if a sketch estimates that it
// was touched more often than the entity that it would replace. So entities that are touched
// once do not drive out those that are touched often.
type composite struct {
	entities   *EntityTable
	admission  Admission
	window     replacer // nil: every new entity is a candidate at once
	main       replacer
	sketch     *sketch  // nil: nothing was touched since the limit changed
	climber    *climber // nil: the window keeps its proportion
	proportion float64  // the part of the limit that the window has
	limit      int
	mainLimit  int
	candidates []Entity // empty between two calls; kept to be used again
}

func newComposite(entities *EntityTable, s Strategy) *composite {
	c := &composite{
		entities: entities, admission: *s.Admission, window: newReplacer(entities, s.Admission.Window), main: newReplacer(entities, s.Main),
		proportion: s.Admission.Proportion,
	}
	if c.window == nil {
		c.proportion = 0
	} else if s.Admission.Optimizer != nil {
		c.climber = newClimber(*s.Admission.Optimizer)
	}
	return c
}

func (c *composite) touch(e Entity, evicted []Entity) []Entity {
	t := &c.entities.tracked[e]
	if f := c.admission.Filter; f != nil {
		if c.sketch == nil {
			c.sketch = newSketch(*f, c.limit)
		}
		c.sketch.increment(t.hash)
	}
	active := t.area != nowhere
	switch {
	case t.area == window:
		c.window.touch(e, nil)
	case t.area == mainArea:
		c.main.touch(e, nil)
	case c.window == nil:
		evicted = c.admit(append(c.candidates[:0], e), evicted)
	default:
		t.area = window
		evicted = c.admit(c.window.touch(e, c.candidates[:0]), evicted)
	}
	if c.climber != nil {
		if step := c.climber.touched(active); step != 0 {
			c.move(step)
		}
	}
	return evicted
}

// admit takes the candidates into the main area, or evicts them.
func (c *composite) admit(candidates, evicted []Entity) []Entity {
	c.candidates = candidates
	for _, e := range candidates {
		t := &c.entities.tracked[e]
		t.area = nowhere
		if v := c.main.victim(); v != 0 && c.main.len() >= c.mainLimit && !c.better(e, v) {
			evicted = append(evicted, e)
			continue
		}
		t.area = mainArea
		first := len(evicted)
		evicted = c.main.touch(e, evicted)
		for _, v := range evicted[first:] {
			c.entities.tracked[v].area = nowhere
		}
	}
	return evicted
}

// better reports whether the candidate is to replace the victim. If both were touched equally
// often, the victim stays.
func (c *composite) better(candidate, victim Entity) bool {
	switch {
	case c.admission.Filter == nil:
		return true
	case c.sketch == nil:
		return false
	}
	return c.sketch.estimate(c.entities.tracked[candidate].hash) > c.sketch.estimate(c.entities.tracked[victim].hash)
}

// setLimit also forgets how often entities were touched, because the size of the sketch depends
// on the limit. The next touch makes a new sketch; a shard that is not used needs none.
func (c *composite) setLimit(n int, evicted []Entity) []Entity {
	c.sketch = nil
	c.limit = n
	if c.climber != nil {
		c.climber.setLimit(n)
	}
	windowLimit := c.split()
	if c.window != nil {
		evicted = c.admit(c.window.setLimit(windowLimit, c.candidates[:0]), evicted)
	}
	first := len(evicted)
	evicted = c.main.setLimit(c.mainLimit, evicted)
	for _, e := range evicted[first:] {
		c.entities.tracked[e].area = nowhere
	}
	return evicted
}

// split divides the limit between window and main area, and returns the window's part.
func (c *composite) split() int {
	n := int(c.proportion * float64(c.limit))
	c.mainLimit = c.limit - n
	return n
}

// move changes the window's proportion by step. It evicts nothing: entities that no longer find
// room in one of the two areas go to the other one.
func (c *composite) move(step float64) {
	c.proportion = max(c.admission.MinProportion, min(c.admission.MaxProportion, c.proportion+step))
	windowLimit := c.split()
	moved := c.candidates[:0]
	if step > 0 {
		c.window.setLimit(windowLimit, nil)
		moved = c.main.setLimit(c.mainLimit, moved)
		for _, e := range moved {
			c.entities.tracked[e].area = window
			c.window.touch(e, nil)
		}
	} else {
		c.main.setLimit(c.mainLimit, nil)
		moved = c.window.setLimit(windowLimit, moved)
		for _, e := range moved {
			c.entities.tracked[e].area = mainArea
			c.main.touch(e, nil)
		}
	}
	c.candidates = moved
}

func (c *composite) remove(e Entity) {
	t := &c.entities.tracked[e]
	if t.area == window {
		c.window.remove(e)
	} else {
		c.main.remove(e)
	}
	t.area = nowhere
}

func (c *composite) len() int {
	n := c.main.len()
	if c.window != nil {
		n += c.window.len()
	}
	return n
}

func (c *composite) victim() Entity { return c.main.victim() }
