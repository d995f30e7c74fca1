//go:build !linux

package bench

// cuts needs network namespaces.
func (r *run) cuts() error {
	r.report.Skipped = append(r.report.Skipped, "region cut off: networks are cut on Linux only")
	return nil
}
