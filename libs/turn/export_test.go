package turn

// Alarms returns the number of scheduled alarms, including obsolete ones.
func (m *Machine) Alarms() int { return len(m.alarms) }
