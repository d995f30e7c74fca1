package turn

// Wakes returns the number of scheduled wakes, including obsolete ones.
func (m *Machine) Wakes() int { return len(m.wakes) }
