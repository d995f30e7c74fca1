//go:build !linux

package server

// asParent does nothing: containers have Linux.
func asParent() (code int, ok bool) { return 0, false }

func tellParent(string) {}
