package new

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/node"
)

// goVersion is the Go version that Roost's modules need.
const goVersion = "1.26.7"

// roostModules are the directories of Roost's modules that a region is made of, or a coordinator with a
// custom strategy.
var roostModules = []string{
	"libs", "libs/backends", "libs/discovery", "libs/journal/postgres", "libs/journal/sqlite", "libs/lease", "libs/node", "proto", "sdk", "services/coordinator", "services/region",
}

//go:embed all:newregion
var newRegionFiles embed.FS

const newRegionHelp = `Writes a Go module with an entity, the region that hosts it, a program that calls
it, and tests into the directory NAME. NAME is a Go package name. A file that
exists is never overwritten.

The module requires the version of Roost that this command has. A roost that was
built from a checkout has none: give --checkout, or --roost-version.`

// newRegion is the data of the templates.
type newRegion struct {
	Name, Module string
	Roost        string // version of Roost's modules
	Checkout     string // relative to the module, with slashes; empty: none
	Go           string
	Replaced     []string
}

func (a *group) newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "new", Short: "Scaffold a new program", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var module, version, checkout string
	region := &cobra.Command{
		Use: "region NAME", Short: "Scaffold a module with an entity and region", Long: newRegionHelp, Args: app.OneName,
		Example: "  roost new region shop\n  roost new region shop --module github.com/you/shop\n  ../roost/bin/roost new region shop --checkout ../roost",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.newRegion(args[0], module, version, checkout)
		},
	}
	region.Flags().StringVar(&module, "module", "", "module path; default: example.com/NAME")
	region.Flags().StringVar(&version, "roost-version", "", "version of Roost's modules, for example v0.1.0; default: the version of this command")
	region.Flags().StringVar(&checkout, "checkout", "", "directory of a checkout of Roost, whose modules are used")
	cmd.AddCommand(region)
	return cmd
}

// taken are names that the files have for something else.
var taken = []string{"main", "server", "client", "entity", "entitytest", "context", "flag", "fmt", "log", "strconv", "strings", "testing", "nil", "gateway", "delta", "k", "t", "got", "err", "c"}

var (
	packageName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	modulePath  = regexp.MustCompile(`^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$`)
	release     = regexp.MustCompile(`^v[01]\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
)

// newRegion writes the module, if none of its files exists, and prints what to do next.
func (a *group) newRegion(name, module, version, checkout string) error {
	if !packageName.MatchString(name) || token.IsKeyword(name) || slices.Contains(taken, name) {
		return app.Usage(fmt.Errorf("%q cannot be the name of the package: write small letters and digits, such as shop", name))
	}
	r := newRegion{Name: name, Module: module, Roost: version, Go: goVersion, Replaced: roostModules}
	if r.Module == "" {
		r.Module = "example.com/" + name
	}
	if !modulePath.MatchString(r.Module) {
		return app.Usage(fmt.Errorf("--module %q is not a module path such as example.com/%s", module, name))
	}
	var err error
	switch {
	case checkout != "" && version != "":
		err = app.Usage(errors.New("--roost-version and --checkout: give one of them, a checkout has no version"))
	case checkout != "":
		r.Roost = "v0.0.0"
		r.Checkout, err = wayTo(checkout, name)
	case version != "" && !release.MatchString(version):
		err = app.Usage(fmt.Errorf("--roost-version %q: write one such as v0.1.0", version))
	case version == "":
		r.Roost, err = ownVersion(node.BuildVersion("roost"))
	}
	if err != nil {
		return err
	}
	files, err := r.render()
	if err != nil {
		return err
	}
	names, err := writeAll(name, files)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(map[string]any{"dir": name, "module": r.Module, "roost": r.Roost, "files": names})
	}
	roost := "roost"
	if _, err := exec.LookPath(roost); err != nil { // built in a checkout, and not installed
		if self, err := os.Executable(); err == nil {
			roost = self
		}
	}
	_, err = fmt.Fprintf(a.Out, `%s is written: %s

Next:
  cd %s
  go mod tidy
  go test ./...
  CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./...
  %s dev --region bin/%s-region

%s says more.
`, name, strings.Join(names, ", "), name, roost, name, filepath.Join(name, "README.md"))
	return err
}

// ownVersion is the version of Roost's modules that go with the running binary.
func ownVersion(v node.Version) (string, error) {
	if !release.MatchString(v.Version) || v.Revision != "" { // built in a checkout
		return "", app.Usage(errors.New("this roost was built from a checkout, and no version of the modules goes with it: name the checkout with --checkout DIR, or a version with --roost-version"))
	}
	return v.Version, nil
}

// wayTo returns the path of a checkout of Roost, from a directory that need not exist.
func wayTo(checkout, dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(checkout, "services", "region", "go.mod")); err != nil {
		return "", app.Usage(fmt.Errorf("--checkout %s is not a checkout of Roost: %w", checkout, err))
	}
	to, err := filepath.Abs(checkout)
	if err != nil {
		return "", err
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	way, err := filepath.Rel(from, to)
	if err != nil {
		return "", err
	}
	if inside, _ := filepath.Rel(to, from); filepath.IsLocal(inside) {
		return "", app.Usage(fmt.Errorf("%s would be inside the checkout, whose go.work does not have it: run this command in another directory", dir))
	}
	return filepath.ToSlash(way), nil
}

// render returns the files by their paths in the module.
func (r newRegion) render() (map[string][]byte, error) {
	files := map[string][]byte{}
	const top = "newregion"
	// The names of files in the module that differ from their names here.
	renamed := map[string]string{
		"entity.go": r.Name + ".go", "entity_test.go": r.Name + "_test.go",
		"cmd/region/main.go": "cmd/" + r.Name + "-region/main.go", "cmd/caller/main.go": "cmd/" + r.Name + "/main.go",
		"gitignore": ".gitignore", "dockerignore": ".dockerignore", "data/keep": "data/.keep",
	}
	err := fs.WalkDir(newRegionFiles, top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		t, err := template.ParseFS(newRegionFiles, path)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, r); err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, top+"/"), ".tmpl")
		if other := renamed[name]; other != "" {
			name = other
		}
		files[name] = text.Bytes()
		return nil
	})
	return files, err
}

// writeAll writes the files into a directory, unless one of them exists, and returns
// their names.
func writeAll(dir string, files map[string][]byte) ([]string, error) {
	var names, exist []string
	for name := range files {
		names = append(names, name)
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			exist = append(exist, name)
		}
	}
	slices.Sort(names)
	slices.Sort(exist)
	if len(exist) > 0 {
		return nil, fmt.Errorf("nothing is written: in %s there is %s already", dir, strings.Join(exist, ", "))
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}
