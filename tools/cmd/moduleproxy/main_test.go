package main

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a small repository of two modules.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE":            "the licence",
		".gitignore":         "*.log\n",
		"go.work":            "go 1.26.0\n\nuse (\n\t./lib\n\t./lib/deep\n\t./app\n\t./tools\n)\n",
		"tools/go.mod":       "module example.com/repo/tools\n",
		"lib/go.mod":         "module example.com/repo/lib\n\ngo 1.26.0\n",
		"lib/lib.go":         "package lib\n",
		"lib/noise.log":      "not for others",
		"lib/deep/go.mod":    "module example.com/repo/lib/deep\n\ngo 1.26.0\n",
		"lib/deep/deep.go":   "package deep\n",
		"app/go.mod":         "module example.com/repo/app\n\ngo 1.26.0\n\nrequire example.com/repo/lib v0.0.0\n\nrequire (\n\texample.com/other v1.2.3 // indirect\n\texample.com/repo/lib/deep v0.0.0 // indirect\n)\n\nreplace (\n\texample.com/repo/lib => ../lib\n\texample.com/repo/lib/deep => ../lib/deep\n)\n\n// for no one else\nexclude example.com/other v1.2.4\n",
		"app/LICENSE":        "its own licence",
		"app/cmd/x/x.go":     "package main\n",
		"app/testdata/data!": "a name that a zip may have",
	} {
		put(t, filepath.Join(root, name), text)
	}
	git := exec.Command("git", "init", "-q")
	git.Dir = root
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return root
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree reads all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestModules(t *testing.T) {
	root, to := repository(t), t.TempDir()
	if err := run(root, "v0.1.0", to, "2026-01-31T13:00:00+01:00"); err != nil {
		t.Fatal(err)
	}
	files := tree(t, to)
	if len(files) != 3*4 {
		t.Errorf("%d files, want 4 for each of 3 modules: tools are not published", len(files))
	}
	const app = "example.com/repo/app/@v/"
	const goMod = "module example.com/repo/app\n\ngo 1.26.0\n\nrequire example.com/repo/lib v0.1.0\n\nrequire (\n\texample.com/other v1.2.3 // indirect\n\texample.com/repo/lib/deep v0.1.0 // indirect\n)\n"
	for name, want := range map[string]string{
		app + "list":        "v0.1.0\n",
		app + "v0.1.0.info": `{"Version":"v0.1.0","Time":"2026-01-31T12:00:00Z"}`,
		app + "v0.1.0.mod":  goMod,
	} {
		if files[name] != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, files[name], want)
		}
	}
	for module, want := range map[string]map[string]string{
		"app": {"go.mod": goMod, "LICENSE": "its own licence", "cmd/x/x.go": "package main\n", "testdata/data!": "a name that a zip may have"},
		"lib": {"go.mod": "module example.com/repo/lib\n\ngo 1.26.0\n", "LICENSE": "the licence", "lib.go": "package lib\n"},
	} {
		r, err := zip.OpenReader(filepath.Join(to, "example.com/repo", module, "@v/v0.1.0.zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if len(r.File) != len(want) {
			t.Errorf("%s has %d files, want %d", module, len(r.File), len(want))
		}
		for _, f := range r.File {
			body, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if name := strings.TrimPrefix(f.Name, "example.com/repo/"+module+"@v0.1.0/"); err != nil || string(text) != want[name] {
				t.Errorf("%s: %q, %v; want %q", f.Name, text, err, want[name])
			}
		}
	}

	again := t.TempDir()
	if err := run(root, "v0.1.0", again, "2026-01-31T12:00:00Z"); err != nil {
		t.Fatal(err)
	}
	for name, text := range tree(t, again) {
		if files[name] != text {
			t.Errorf("%s differs in the second run", name)
		}
	}
}

func TestVersionsNeverChange(t *testing.T) {
	root, to := repository(t), t.TempDir()
	for _, version := range []string{"v0.10.0", "v0.9.0", "v0.9.0"} {
		if err := run(root, version, to, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := tree(t, to)["example.com/repo/lib/@v/list"]; got != "v0.9.0\nv0.10.0\n" {
		t.Errorf("the list is %q", got)
	}
	put(t, filepath.Join(root, "lib/lib.go"), "package lib // changed\n")
	if err := run(root, "v0.9.0", to, ""); err == nil || !strings.Contains(err.Error(), "choose a new version") {
		t.Errorf("a version with another content: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	root := repository(t)
	for _, tc := range []struct{ version, to, at, want string }{
		{"", "x", "", "-version"},
		{"0.1.0", "x", "", "-version"},
		{"v0.1", "x", "", "-version"},
		{"v2.0.0", "x", "", "-version"},
		{"v0.1.0", "", "", "-to"},
		{"v0.1.0", "x", "yesterday", "-time"},
	} {
		if err := run(root, tc.version, tc.to, tc.at); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("run(%q, %q, %q): %v", tc.version, tc.to, tc.at, err)
		}
	}
	to := t.TempDir()
	put(t, filepath.Join(root, "lib/go.mod"), "module example.com/repo/lib\n\nreplace example.com/other => ../other\n")
	if err := run(root, "v0.1.0", to, ""); err == nil || !strings.Contains(err.Error(), "replace example.com/other") {
		t.Errorf("a replace of a module from elsewhere: %v", err)
	}
	if files := tree(t, to); len(files) > 0 {
		t.Errorf("files were written: %v", files)
	}
}
