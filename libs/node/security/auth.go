package security

import "errors"

// ErrUnauthenticated reports that the sender of a request is not known. Errors that wrap it describe the fault of
// the credentials, but nothing that helps to guess the right ones.
var ErrUnauthenticated = errors.New("not authenticated")

// MaxToken is the longest token that is looked at.
const MaxToken = 16 << 10
