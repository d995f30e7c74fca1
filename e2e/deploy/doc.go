// Package deploy checks the files of deploy/ against the binaries that they start:
// every flag, variable, value, port and probe of the compose files and of the
// Kubernetes manifests is put before the real coordinator, region and gateway.
//
// # What this does not do
//
// It starts no container and asks no Kubernetes: it knows only those fields of
// their formats that the files use, and refuses others.
package deploy
