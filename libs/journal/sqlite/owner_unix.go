//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// makeShared makes the index of the log if the process is root's and the file another
// user's: SQLite would make one that the other user's processes cannot open. It appears
// with its owner at once.
func makeShared(path string) error {
	info, err := os.Stat(path)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	if _, err := os.Stat(path + sharedSuffix); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+sharedSuffix+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(f.Chmod(info.Mode().Perm()), f.Chown(int(owner.Uid), int(owner.Gid)), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path+sharedSuffix)
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil
	}
	return err
}

// ownLike gives a file that root has made to the owner of the file at like or, if there is none, to
// the owner of its directory: the processes of that user need it.
func ownLike(path, like string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(like))
	}
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
