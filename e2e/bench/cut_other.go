//go:build !linux

package bench

// cuts need networks of their own.
func (r *run) cuts() error {
	r.report.Skipped = append(r.report.Skipped, "region cut off: networks are cut on Linux only")
	return nil
}
