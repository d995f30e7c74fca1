// Package settingtest checks that a configuration refuses unusable values, whatever core declares them.
//
// # What this does not do
//
// It does not know the conditions between settings; they have tests of their own.
package settingtest

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config is the configuration of a service.
type Config interface{ Validate() error }

// Run checks a configuration: it is valid, and for each of its numbers, durations and sizes, a value outside of the range is
// refused with an error that names the key. Settings without a range must refuse negative values by a condition.
func Run(t *testing.T, fresh func() Config) {
	t.Helper()
	if err := fresh().Validate(); err != nil {
		t.Fatal(err)
	}
	fields, err := setting.Fields(fresh())
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i, f := range fields {
		if f.Help == "" {
			t.Errorf("%s has no help", f.Key)
		}
		for _, value := range outside(f) {
			checked++
			config := fresh()
			spoilt, err := setting.Fields(config)
			if err != nil {
				t.Fatal(err)
			}
			spoilt[i].Value.Set(reflect.ValueOf(value).Convert(f.Value.Type()))
			if err := config.Validate(); err == nil || !names(err.Error(), f.Key) {
				t.Errorf("%s = %v, with the range %q: %v", f.Key, value, f.Range, err)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d values were tried", checked)
	}
}

// names reports whether an error names a key, not only a longer one.
func names(text, key string) bool {
	for word := range strings.FieldsSeq(text) {
		if word == key {
			return true
		}
	}
	return false
}

// outside returns values that a setting must refuse.
func outside(f *setting.Field) (values []any) {
	limited := f.Range != "" && strings.Contains(f.Range, "..") && !strings.HasSuffix(f.Range, "..")
	switch v := f.Value; {
	case v.CanInt() && (v.Type().PkgPath() == "" || v.Type() == reflect.TypeFor[time.Duration]() || v.Type() == reflect.TypeFor[setting.Bytes]()):
		if values = append(values, int64(-1)); strings.HasPrefix(f.Range, ">0") || strings.HasPrefix(f.Range, "1") {
			values = append(values, int64(0))
		}
		if limited {
			values = append(values, int64(math.MaxInt64))
		}
	case v.CanUint() && limited:
		values = append(values, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
	case v.CanFloat():
		if values = append(values, -1.0, math.NaN()); limited {
			values = append(values, math.Inf(1))
		}
	}
	return values
}
