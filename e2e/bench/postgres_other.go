//go:build !linux

package bench

// durablePostgres needs the server of the tests, which runs on Linux only.
func (r *run) durablePostgres() error {
	r.report.Skipped = append(r.report.Skipped, "PostgreSQL: only on Linux")
	return nil
}

// twoDatabases needs it too.
func (r *run) twoDatabases() error { return r.durablePostgres() }

// servicePostgres needs it too.
func (r *run) servicePostgres() error { return r.durablePostgres() }
