package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// labels are the labels of an image, with their values. Variables are as in the file.
var labels = map[string]string{
	"title":       "roost ${SERVICE}",
	"description": "Cluster sharding as services: the ${SERVICE}",
	"version":     "${VERSION}",
	"revision":    "${REVISION}",
	"licenses":    "Apache-2.0",
}

// checkDockerfile returns the faults of the images' labels, and of their values in make images.
func checkDockerfile(dockerfile, makefile string) []string {
	var bad []string
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`org\.opencontainers\.image\.([\w.]+)="([^"]*)"`).FindAllStringSubmatch(dockerfile, -1) {
		if want, ok := labels[m[1]]; !ok || m[2] != want || found[m[1]] {
			bad = append(bad, fmt.Sprintf("the label %s is %q, must be %q, once", m[1], m[2], want))
		}
		found[m[1]] = true
	}
	for name := range labels { // order-free: independent findings
		if !found[name] {
			bad = append(bad, "there is no label "+name)
		}
	}
	from, arguments := strings.Index(dockerfile, "\nFROM "), map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ARG (\w+)`).FindAllStringSubmatchIndex(dockerfile, -1) {
		name := dockerfile[m[2]:m[3]]
		arguments[name] = true
		if m[0] < from || m[0] > strings.Index(dockerfile, "\nLABEL ") {
			bad = append(bad, "the image does not know "+name+" where its labels are")
		}
		if strings.Count(makefile, "--build-arg "+name+"=") != 1 {
			bad = append(bad, "make images does not give "+name)
		}
	}
	for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(dockerfile, -1) {
		if !arguments[m[1]] {
			bad = append(bad, "there is no argument "+m[1])
		}
	}
	return bad
}

// TestDockerfile: the images describe themselves, and make images fills it in.
func TestDockerfile(t *testing.T) {
	dockerfile, makefile := fileText(t, "deploy/Dockerfile"), fileText(t, "Makefile")
	for _, finding := range checkDockerfile(dockerfile, makefile) {
		t.Error(finding)
	}
	if license := fileText(t, "LICENSE"); !strings.Contains(license, "Apache License") || !strings.Contains(license, "Version 2.0") {
		t.Error("the label says Apache-2.0, LICENSE does not")
	}
	for _, c := range []struct{ was, is, hear string }{
		{"image.revision=", "image.commit=", "there is no label revision"},
		{"image.revision=", "image.version=", "the label version is"},
		{`"${VERSION}"`, `"1.0"`, "the label version is"},
		{"ARG REVISION=unknown\n", "", "there is no argument REVISION"},
		{"FROM scratch\nARG SERVICE\n", "ARG SERVICE\nFROM scratch\n", "the image does not know SERVICE"},
		{"--build-arg REVISION=", "--build-arg COMMIT=", "make images does not give REVISION"},
	} {
		bad := checkDockerfile(strings.ReplaceAll(dockerfile, c.was, c.is), strings.ReplaceAll(makefile, c.was, c.is))
		if !strings.Contains(strings.Join(bad, "\n"), c.hear) {
			t.Errorf("%q for %q is not noticed: %q", c.is, c.was, bad)
		}
	}
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
