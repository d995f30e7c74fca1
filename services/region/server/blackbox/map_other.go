//go:build !unix

package blackbox

import (
	"errors"
	"os"
)

var errSystem = errors.New("not supported on this system")

// OwnFolder is not supported.
func OwnFolder() (string, error) { return "", errSystem }

func openOwn(string) (*os.File, error) { return nil, errSystem }

func mapFile(*os.File, int) ([]byte, error) { return nil, errSystem }

func lock(*os.File) error { return errSystem }
