// Package alerts has the tests of deploy/alerts/roost.yaml and deploy/grafana/roost.json. They run
// real processes, scrape them, and evaluate the rules and the queries of the board with the code of
// Prometheus itself.
//
// Each scenario of TestAlerts injects a cause, and lists the alerts that must begin to fire because
// of it. Any other alert is a failure, and so is an alert that fires before the cause. The scraped
// values are real; the time of the evaluation is virtual, so that no test waits for "for: 15m".
//
// The module is not part of the workspace. All modules of a workspace use the same version of each
// dependency, so the requirements of Prometheus would choose the versions that Roost is built with.
// The Makefile has a target for it (make e2e-alerts), which make e2e includes.
//
// # What this does not do
//
// It does not show that a cause persists for as long as an alert waits. The values of the last scrape
// are used for the rest of the virtual time.
package alerts
