// Command sbom writes a software bill of materials in the format CycloneDX, for each of the given Go
// binaries.
//
//	sbom -to DIR bin/coordinator bin/gateway
//
// The bill lists the modules that the Go toolchain has noted in the binary, with their versions and checksums, and the
// licences in their sources. It fails if a module has no licence that is recognized, or one that is not allowed. The
// same binary gives the same bytes.
//
// # What this does not do
//
// It knows nothing of vulnerabilities (make vulncheck), and nothing of a binary that is not built by Go. It
// does not download sources: the module cache of the machine that built the binary has them.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// allowed are the licences that a module may have: those that ask for no more than to be named, and MPL-2.0, which
// asks for the source of its own files.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// ours is the beginning of the modules of this repository, which have its licence.
const ours = "github.com/roost-cluster/roost/"

func main() {
	root := flag.String("root", ".", "the repository")
	to := flag.String("to", "bin/sbom", "the directory to write")
	flag.Parse()
	if err := run(*root, *to, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(root, to string, binaries []string) error {
	if len(binaries) == 0 {
		return errors.New("give the binaries")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	l := &licences{root: root, cache: strings.TrimSpace(string(cache)), known: map[string][]string{}}
	for _, file := range binaries {
		text, err := l.bill(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)+".cdx.json"), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// licences finds the licences of modules.
type licences struct {
	root, cache string
	known       map[string][]string // by directory
}

// bill returns the bill of a binary.
func (l *licences) bill(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	program := cdx.Component{
		BOMRef: info.Path, Type: cdx.ComponentTypeApplication, Name: filepath.Base(file), Version: info.Main.Version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	if len(properties) > 0 {
		program.Properties = &properties
	}
	standard := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + standard, PackageURL: "pkg:golang/std@" + standard, Type: cdx.ComponentTypeLibrary, Name: "std", Version: standard, Licenses: choices([]string{"BSD-3-Clause"}),
	}}
	var errs []error
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		part, err := l.component(m)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parts = append(parts, part)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var refs []string
	for i := range parts {
		refs = append(refs, parts[i].BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program}
	bom.Components, bom.Dependencies = &parts, &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// component describes a module.
func (l *licences) component(m *debug.Module) (cdx.Component, error) {
	dir, hashes := l.root, (*[]cdx.Hash)(nil)
	if source := m; !strings.HasPrefix(m.Path, ours) {
		if m.Replace != nil {
			source = m.Replace
		}
		path, err1 := module.EscapePath(source.Path)
		version, err2 := module.EscapeVersion(source.Version)
		sum, err3 := base64.StdEncoding.DecodeString(strings.TrimPrefix(source.Sum, "h1:"))
		if err := errors.Join(err1, err2, err3); err != nil || len(sum) != sha256.Size {
			return cdx.Component{}, fmt.Errorf("%s %s has no valid path, version and checksum: %w", source.Path, source.Version, err)
		}
		dir = filepath.Join(l.cache, filepath.FromSlash(path)+"@"+version)
		hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		m = source
	}
	found, err := l.of(dir)
	if err != nil {
		return cdx.Component{}, fmt.Errorf("the licence of %s %s: %w", m.Path, m.Version, err)
	}
	url := "pkg:golang/" + m.Path + "@" + m.Version
	return cdx.Component{
		BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, Hashes: hashes, Licenses: choices(found),
	}, nil
}

func choices(ids []string) *cdx.Licenses {
	var list cdx.Licenses
	for _, id := range ids {
		list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &list
}

// read are files that a human has reviewed, because their texts match no standard licence: their checksums,
// and the licences that they name. None: the file is about something that is in no binary.
var read = map[string][]string{
	"8438c9c89b849131ead81d5435cb97fcf052df5b0b286dda8a2d4c29e6cb3fd0": {"blessing"},                            // of SQLite, which is in the public domain
	"5ae5bee3072a841376451b48d8cfcec7188e10543926d5870828d36c8a750dc5": {},                                      // where the picture on the page of modernc.org/memory is from
	"f597097efe3d97021f89170746bd3a0fb9a8b6fb26b82043ed68a4e0283bee6c": {"BSD-2-Clause", "BSD-3-Clause", "MIT"}, // of the parts of modernc.org/libc from Go, musl and others
}

// enough is the percentage of a file that the texts of licences must be. The rest are copyright lines and names.
const enough = 60

// of returns the licences in the files of a directory that are for licences. All of them must be allowed.
func (l *licences) of(dir string) ([]string, error) {
	if found, is := l.known[dir]; is {
		return found, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: build the program first", err)
	}
	var found []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || strings.HasSuffix(name, ".GO") || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if ids, is := read[fmt.Sprintf("%x", sha256.Sum256(text))]; is {
			found = append(found, ids...)
			continue
		}
		cover := licensecheck.Scan(text)
		if cover.Percent < enough {
			return nil, fmt.Errorf("%s is not a known text (%.0f %% of it are known)", e.Name(), cover.Percent)
		}
		for _, match := range cover.Match {
			if !slices.Contains(allowed, match.ID) {
				return nil, fmt.Errorf("%s in %s is not allowed: %s are", match.ID, e.Name(), strings.Join(allowed, ", "))
			}
			found = append(found, match.ID)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("there is no file of a licence")
	}
	slices.Sort(found)
	found = slices.Compact(found)
	l.known[dir] = found
	return found, nil
}
