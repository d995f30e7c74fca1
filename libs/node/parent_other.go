//go:build !linux

package node

func dieWithParent() bool { return false }
