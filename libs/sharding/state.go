package sharding

import "encoding/binary"

// AppendString appends s after its length, a varint. The canonical encodings of states
// and the frames of links are made of it.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Draw returns the n-th number, from 1 on, that a member draws from its seed: splitmix64
// (Steele, Lea, Flood 2014) over seed, uid and n, a generator whose state can be copied
// and hashed with the rest.
func Draw(seed uint64, self NodeUID, n uint64) uint64 {
	z := (seed ^ uint64(self)*0xd1342543de82ef95) + n*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
