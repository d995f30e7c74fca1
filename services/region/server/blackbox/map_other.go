//go:build !unix

package blackbox

import (
	"errors"
	"os"
)

var errSystem = errors.New("not supported on this system")

func mapFile(*os.File, int) ([]byte, error) { return nil, errSystem }

func lock(*os.File) error { return errSystem }
