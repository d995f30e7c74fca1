package setting

import (
	"errors"
	"strconv"
	"strings"
)

// Bytes is a size in bytes, written 512, 64KiB, 16MiB or 2GiB (powers of 1024),
// or 64kB, 16MB, 2GB (powers of 1000).
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}, {"", 1},
}

// UnmarshalText parses a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<63-1)/unit.size {
			break
		}
		*b = Bytes(n * unit.size)
		return nil
	}
	return errors.New("not a size: write it like 512, 64KiB or 16MiB")
}

// MarshalText returns the size as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns the size in the largest unit of 1024 that divides it.
func (b Bytes) String() string {
	for _, unit := range byteUnits[:3] {
		if b != 0 && int64(b)%unit.size == 0 {
			return strconv.FormatInt(int64(b)/unit.size, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
