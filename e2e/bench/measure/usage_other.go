//go:build !linux

package measure

import "time"

// usage is not known here.
func usage([]int) time.Duration { return 0 }
