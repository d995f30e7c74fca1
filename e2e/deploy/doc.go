// Package deploy checks the files of deploy/ against the binaries that they start:
// every flag, variable, value, port and probe of the compose files and of the
// Kubernetes manifests is given to the real coordinator, region and gateway.
//
// # What this does not do
//
// It starts no containers and needs no Kubernetes: it knows only the fields that the
// files use, and refuses others.
package deploy
