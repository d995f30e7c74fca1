//go:build unix

package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// OwnFolder returns a folder of this user alone within the folder for temporary files, and makes it if it does not
// exist. Any user of the machine may write to the latter. A file of another one there could name entities that have not
// run, and a link could lead to any file of this user.
func OwnFolder() (string, error) {
	path := filepath.Join(os.TempDir(), "roost-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || !own(info) {
		return "", fmt.Errorf("%s is not a folder of this user alone: remove it", path)
	}
	return path, nil
}

// openOwn opens a file, or makes it. It refuses links, and files that other users have made or may write.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !own(info) || info.Sys().(*syscall.Stat_t).Nlink != 1) {
		err = fmt.Errorf("%s is not a file of this user alone: remove it", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// own reports whether a file belongs to this user, and no other user may write it.
func own(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}

func mapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// lock takes the file for this process, until it ends.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
