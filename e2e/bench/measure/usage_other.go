//go:build !linux

package measure

import "time"

// Usage is not known here.
func Usage([]int) time.Duration { return 0 }

// UsageOf is not known here.
func UsageOf(int) time.Duration { return 0 }

// Resident is not known here.
func Resident(int) int64 { return 0 }

// ResidentFiles is not known here.
func ResidentFiles(int) int64 { return 0 }
