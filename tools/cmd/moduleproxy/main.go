// Command moduleproxy writes the modules of this repository, as one version, into a directory that serves
// the go command as a module proxy:
//
//	moduleproxy -version v0.1.0 -to DIR
//	GOPROXY=file://DIR,$(go env GOPROXY) go get github.com/roost-cluster/roost/sdk@v0.1.0
//
// A web server that serves the directory is a module proxy as well.
//
// In the repository, modules require each other at v0.0.0 and replace each other by directories. A go.mod
// that is published names the version instead, and has no replace and exclude lines: the go command ignores
// them in a dependency, and refuses to install a command whose module has any.
//
// The same files give the same bytes. Files are those that git tracks, and new ones that
// it does not ignore. A module without a licence of its own gets the repository's.
//
// # What this does not do
//
// It tags and uploads nothing, and does not check that the modules work: e2e/stranger builds
// a user's module from such a directory.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// private are the directories of modules that no other module imports: tools and tests.
var private = []string{"tools", "e2e", "e2e/bench/measure", "e2e/docker"}

func main() {
	root := flag.String("root", ".", "the repository")
	version := flag.String("version", "", "the version, such as v0.1.0")
	to := flag.String("to", "", "the directory to write; other versions that it has are kept")
	at := flag.String("time", "", "the time of the version, such as 2026-01-31T12:00:00Z; default: none")
	flag.Parse()
	if err := run(*root, *version, *to, *at); err != nil {
		fmt.Fprintln(os.Stderr, "moduleproxy:", err)
		os.Exit(1)
	}
}

func run(root, version, to, at string) error {
	if semver.Canonical(version) != version || version == "" || semver.Major(version) > "v1" {
		return fmt.Errorf("-version %q: write one such as v0.1.0, with the major version 0 or 1, as in the module paths", version)
	}
	if to == "" {
		return errors.New("-to is empty: name the directory to write")
	}
	info := struct {
		Version string
		Time    *time.Time `json:",omitempty"`
	}{Version: version}
	if at != "" {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("-time: %w", err)
		}
		when = when.UTC()
		info.Time = &when
	}
	about, err := json.Marshal(info)
	if err != nil {
		return err
	}
	modules, err := readModules(root)
	if err != nil {
		return err
	}
	siblings := map[string]bool{}
	for _, m := range modules {
		siblings[m.file.Module.Mod.Path] = true
	}
	for _, m := range modules {
		if err := m.publish(siblings, version); err != nil {
			return fmt.Errorf("%s: %w", m.file.Syntax.Name, err)
		}
	}
	// Nothing is written before everything is known to be right.
	for _, m := range modules {
		content, err := m.zip(root, version)
		if err != nil {
			return err
		}
		if err := m.write(to, version, about, content); err != nil {
			return err
		}
	}
	return nil
}

// mod is one module of the repository.
type mod struct {
	dir   string // in the repository, with slashes
	file  *modfile.File
	goMod []byte // as it is published
}

// readModules reads the modules that are published: the modules of go.work without the private ones.
func readModules(root string) ([]*mod, error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	var modules []*mod
	for _, use := range work.Use {
		dir := path.Clean(use.Path)
		if slices.Contains(private, dir) {
			continue
		}
		name := filepath.Join(root, filepath.FromSlash(dir), "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		modules = append(modules, &mod{dir: dir, file: file})
	}
	return modules, nil
}

// publish makes the go.mod that is published.
func (m *mod) publish(siblings map[string]bool, version string) error {
	replaced := slices.Clone(m.file.Replace)
	for _, r := range replaced {
		if !siblings[r.Old.Path] {
			return fmt.Errorf("replace %s: importers of the module do not see it; require what is meant, or publish that module", r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, e := range slices.Clone(m.file.Exclude) {
		if err := m.file.DropExclude(e.Mod.Path, e.Mod.Version); err != nil {
			return err
		}
	}
	for _, r := range m.file.Require {
		if !siblings[r.Mod.Path] {
			continue
		}
		if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	var err error
	m.goMod, err = m.file.Format()
	return err
}

// zip makes the module's zip file.
func (m *mod) zip(root, version string) ([]byte, error) {
	git := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
	git.Dir = filepath.Join(root, filepath.FromSlash(m.dir))
	git.Stderr = os.Stderr
	list, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("the files of %s, from git: %w", m.dir, err)
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(list), "\x00") {
		known[filepath.Join(git.Dir, filepath.FromSlash(name))] = true
	}
	checked, err := zip.CheckDir(git.Dir) // without nested modules
	if err != nil {
		return nil, err
	}
	licence := "LICENSE"
	files := []zip.File{}
	for _, name := range checked.Valid {
		rel, err := filepath.Rel(git.Dir, name)
		switch {
		case err != nil:
			return nil, err
		case !known[name]:
		case rel == "go.mod":
			files = append(files, entry{name: rel, content: m.goMod})
		default:
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, entry{name: filepath.ToSlash(rel), content: content})
			if rel == licence {
				licence = ""
			}
		}
	}
	if licence != "" {
		content, err := os.ReadFile(filepath.Join(root, licence))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: licence, content: content})
	}
	var out bytes.Buffer
	err = zip.Create(&out, module.Version{Path: m.file.Module.Mod.Path, Version: version}, files)
	return out.Bytes(), err
}

// write writes a proxy's files for one version. A version never changes: if a user has downloaded it, the
// sums that the go command keeps would refuse another one.
func (m *mod) write(to, version string, info, content []byte) error {
	escaped, err := module.EscapePath(m.file.Module.Mod.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(to, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	at := filepath.Join(dir, version)
	switch old, err := os.ReadFile(at + ".zip"); {
	case err == nil && !bytes.Equal(old, content):
		return fmt.Errorf("%s has another content of this version already: choose a new version", at+".zip")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	versions := []string{version}
	switch list, err := os.ReadFile(filepath.Join(dir, "list")); {
	case err == nil:
		versions = append(versions, strings.Fields(string(list))...)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	semver.Sort(versions)
	list := strings.Join(slices.Compact(versions), "\n") + "\n"
	return errors.Join(
		os.WriteFile(at+".zip", content, 0o644),
		os.WriteFile(at+".mod", m.goMod, 0o644),
		os.WriteFile(at+".info", info, 0o644),
		os.WriteFile(filepath.Join(dir, "list"), []byte(list), 0o644),
	)
}

// entry is a file of a zip file.
type entry struct {
	name    string
	content []byte
}

func (e entry) Path() string                 { return e.name }
func (e entry) Lstat() (fs.FileInfo, error)  { return info(e), nil }
func (e entry) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(e.content)), nil }

// info describes an entry.
type info entry

func (i info) Name() string       { return path.Base(i.name) }
func (i info) Size() int64        { return int64(len(i.content)) }
func (i info) Mode() fs.FileMode  { return 0o644 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
