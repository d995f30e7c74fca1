// Package ui has the tests of the dashboard in a real browser: Chromium, without a window. One cluster of real
// processes has a region killed while the page is open. Another one is simulated, and large. The tests also
// make the pictures in docs (UI_PICTURES=directory).
//
// The module is not part of the workspace, so that nothing that is published depends on the protocol of a
// browser. The Makefile has a target for it (make e2e-ui). Without Chromium the tests are skipped.
//
// # What this does not do
//
// It does not compare pictures. It looks for what the pages say, and for errors in the browser.
package ui
