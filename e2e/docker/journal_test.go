//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver "pgx"
	"github.com/ory/dockertest/v3/docker"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// stored stops all services and reads the records of all lists from the journal, without any
// code of Roost.
func (c *cluster) stored() (all []history.Stored) {
	c.Helper()
	for _, role := range []string{gateway, region, coordinator} {
		c.must(each(c.all(role), func(n *node) error { return n.stop(stopTimeout) }))
	}
	driver, where := "pgx", c.journal+"?search_path=roost"
	if file, ok := strings.CutPrefix(c.journal, "sqlite:"); ok {
		dir := c.TempDir()
		c.must(c.all(region)[0].copyOut(filepath.Dir(file), dir))
		driver, where = "sqlite", filepath.Join(dir, file)
	}
	db, err := sql.Open(driver, where)
	c.must(err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(c.Context(), `SELECT e.name, r.seq, r.body FROM record r JOIN entity e ON e.id = r.entity
		WHERE e.type = 'List' ORDER BY e.name, r.seq`)
	c.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var list string
		var seq int64
		var body []byte
		c.must(rows.Scan(&list, &seq, &body))
		s, err := history.Decode(list, seq, body)
		c.must(err)
		all = append(all, s)
	}
	c.must(rows.Err())
	return all
}

// copyOut copies the files of a folder of the container.
func (c *container) copyOut(folder, to string) error {
	var tape bytes.Buffer
	if err := c.DownloadFromContainer(c.id, docker.DownloadFromContainerOptions{Path: folder, OutputStream: &tape}); err != nil {
		return err
	}
	for archive := tar.NewReader(&tape); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(to, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(name, content, 0o600)
			}
		}
		if err != nil {
			return err
		}
	}
}
