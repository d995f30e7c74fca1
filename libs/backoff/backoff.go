// Package backoff computes the pauses between attempts that fail.
package backoff

import "time"

// Jitter draws the random part of pauses. Equal seeds draw equal parts.
type Jitter uint64

// Pause returns how long to wait after a number of failures in a row: from least on, it doubles
// with each up to most, and a random part of up to a half is subtracted.
func (j *Jitter) Pause(failures int, least, most time.Duration) time.Duration {
	d := least
	for i := 1; i < failures && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	*j += 0x9e3779b97f4a7c15 // splitmix64, see https://prng.di.unimi.it/splitmix64.c
	x := uint64(*j)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return d - time.Duration(x%uint64(d/2+1))
}
