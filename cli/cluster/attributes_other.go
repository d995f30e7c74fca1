//go:build !unix

package cluster

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
