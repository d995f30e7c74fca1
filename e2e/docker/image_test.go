//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ory/dockertest/v3/docker"
)

// owner is the user that servers and services run as.
const owner = 65532

// files are the files of an image or a build context, as a tar archive.
type files struct {
	buffer bytes.Buffer
	tar    *tar.Writer
	has    map[string]bool
	err    error
}

func newFiles() *files {
	f := &files{has: map[string]bool{}}
	f.tar = tar.NewWriter(&f.buffer)
	return f
}

func (f *files) write(h tar.Header, content []byte) {
	if f.err != nil || f.has[h.Name] {
		return
	}
	f.has[h.Name] = true
	h.Size = int64(len(content))
	if f.err = f.tar.WriteHeader(&h); f.err == nil {
		_, f.err = f.tar.Write(content)
	}
}

// text adds a file.
func (f *files) text(name, content string) {
	f.write(tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, []byte(content))
}

// file adds a file of this machine, readable by everybody.
func (f *files) file(name, from string) {
	content, err := os.ReadFile(from)
	if err == nil {
		info, statErr := os.Stat(from)
		if err = statErr; err == nil {
			f.write(tar.Header{Name: name, Mode: int64(info.Mode().Perm()) | 0o444, Typeflag: tar.TypeReg}, content)
		}
	}
	f.err = errors.Join(f.err, err)
}

// folder adds all files of a folder of this machine, except those that match but.
func (f *files) folder(name, from string, but *regexp.Regexp) {
	f.err = errors.Join(f.err, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || but != nil && but.MatchString(path) {
			return err
		}
		f.file(filepath.Join(name, strings.TrimPrefix(path, from)), path)
		return nil
	}))
}

// owned adds a folder that belongs to the image's user, with its content.
func (f *files) owned(name, from string) {
	f.err = errors.Join(f.err, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := tar.Header{
			Name: filepath.Join(name, strings.TrimPrefix(path, from)), Mode: int64(info.Mode().Perm()),
			Uid: owner, Gid: owner, Typeflag: tar.TypeReg,
		}
		if d.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			f.write(h, nil)
			return nil
		}
		content, err := os.ReadFile(path)
		f.write(h, content)
		return err
	}))
}

// empty adds an empty folder that belongs to the image's user.
func (f *files) empty(name string) {
	f.write(tar.Header{Name: name + "/", Mode: 0o700, Uid: owner, Gid: owner, Typeflag: tar.TypeDir}, nil)
}

// library matches a line of ldd that names a file.
var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// program adds a program of this machine and its shared libraries.
func (f *files) program(name, from string) {
	f.file(name, from)
	out, err := exec.Command("ldd", from).Output()
	if err != nil {
		return // a static executable
	}
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		f.file(strings.TrimPrefix(match[1], "/"), match[1])
	}
}

func (f *files) done() ([]byte, error) {
	return f.buffer.Bytes(), errors.Join(f.err, f.tar.Close())
}

// rootfs builds an image whose only layer is these files.
func (e *engine) rootfs(name, instructions string, f *files) (image string, err error) {
	layer, err := f.done()
	if err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	context := newFiles()
	context.text("Dockerfile", "FROM scratch\nADD rootfs.tar /\nUSER "+fmt.Sprint(owner)+"\n"+instructions)
	context.write(tar.Header{Name: "rootfs.tar", Mode: 0o644, Typeflag: tar.TypeReg}, layer)
	return e.image(name, context)
}

// service builds the image of a service, as users do.
func (e *engine) service(name, binary string) (image string, err error) {
	context := newFiles()
	context.file("Dockerfile", filepath.Join(root, "deploy/Dockerfile"))
	context.file("bin/"+name, binary)
	context.folder("deploy/data", filepath.Join(root, "deploy/data"), nil)
	return e.image(name, context, docker.BuildArg{Name: "SERVICE", Value: name})
}

func (e *engine) image(name string, context *files, args ...docker.BuildArg) (image string, err error) {
	image = prefix + name
	input, err := context.done()
	if err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	var output bytes.Buffer
	err = e.BuildImage(docker.BuildImageOptions{
		Name: image, InputStream: bytes.NewReader(input), OutputStream: &output, BuildArgs: args,
		Labels: map[string]string{label: ""}, RmTmpContainer: true, ForceRmTmpContainer: true,
	})
	if err != nil {
		return "", fmt.Errorf("image %s: %w\n%s", name, err, &output)
	}
	return image, nil
}
