// Package atomicfile replaces small files as a whole.
//
// # What this does not do
//
// It does not wait until a file is on the disk: after a power cut, the old content may be there, or nothing.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes a file with exactly these permissions. A reader of the file sees the old content or the new one. If
// the file is a link, the link is replaced, and not what it leads to.
//
// The content is first in a file with a name that cannot be guessed: in a folder that others may write to, a known
// name could be a link, and the content, for example a private key, would get into another file.
func Write(path string, content []byte, mode os.FileMode) error {
	fresh, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = fresh.Write(content)
	if err = errors.Join(err, fresh.Chmod(mode), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		_ = os.Remove(fresh.Name()) // what has failed is in err
	}
	return err
}
