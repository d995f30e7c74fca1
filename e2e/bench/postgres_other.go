//go:build !linux

package bench

// durablePostgres is for Linux, where the server of the tests runs.
func (r *run) durablePostgres() error {
	r.report.Skipped = append(r.report.Skipped, "PostgreSQL: only on Linux")
	return nil
}
