// Package kube has the tests of the Helm chart in deploy/helm, by Helm's own library.
//
// The tests of the chart (make chart) render it, and compare it with the manifests in deploy/kubernetes and
// deploy/kubernetes-tls, which the tests in e2e/deploy compare with the binaries. What the chart makes of other values than its defaults is given to
// those tests, too.
//
// The module is not part of the workspace. All modules of a workspace use the same version of each dependency, so the
// requirements of Helm would choose the versions that Roost is built with.
//
// # What this does not do
//
// It starts no containers: there is no kubelet, no scheduler and no controller.
package kube
