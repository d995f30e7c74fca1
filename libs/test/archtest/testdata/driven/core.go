// Package driven is a core that says what its driver must do.
//
// # Duties of the driver
//
//  1. Step is called by one goroutine.
//
// The loop to write:
//
//	for in := range inbox {
//		perform(Step(in))
//	}
package driven
