package watchfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSameStamp: a file that was replaced is read again, although it has the time stamp and size of the old one.
func TestSameStamp(t *testing.T) {
	path, stamp := filepath.Join(t.TempDir(), "keys"), time.Unix(1_000_000_000, 0)
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, stamp, stamp)); err != nil {
			t.Fatal(err)
		}
	}
	var said []error
	write(path, "anna bob")
	f, err := Open("auth.api_keys", path, func(err error) { said = append(said, err) }, func(b []byte) (string, error) {
		if string(b) == "unusable" {
			return "", errors.New("no")
		}
		return string(b), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	want := func(content string, complaints int) {
		t.Helper()
		for range 2 {
			now = now.Add(lookEvery)
			if got := f.Get(now); got != content || len(said) != complaints {
				t.Fatalf("content %q with complaints %v, want %q and %d", got, said, content, complaints)
			}
		}
	}
	want("anna bob", 0)
	write(path, "anna ...") // in place
	want("anna ...", 0)
	write(path+".new", "... bobo")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	want("... bobo", 0)
	write(path, "unusable")
	want("... bobo", 1)
	write(path, "... bobo")
	want("... bobo", 1)
	write(path, "unusable")
	want("... bobo", 2)
	write(path, "anna bob")
	want("anna bob", 2)

	// What could not be read is read as soon as it can be, although it is the same file as before.
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	write(path+".away", "anna ...")
	want("anna bob", 3)
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
	want("anna ...", 3)
}
