package turn

// Wakes is the number of planned wakes, pointless ones included.
func (m *Machine) Wakes() int { return len(m.wakes) }
