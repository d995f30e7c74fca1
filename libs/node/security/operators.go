package security

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/node/security/watchfile"
)

// ErrUnauthenticated reports that the sender of a request is not known. Errors that wrap it describe the fault of
// the credentials, but nothing that helps to guess the right ones.
var ErrUnauthenticated = errors.New("not authenticated")

// Operator is the holder of a management token.
type Operator struct {
	// PrincipalName is the name of the token, such as key:anna.
	Name string
	// ReadOnly is true if the token is only for requests that change nothing.
	ReadOnly bool
}

// Operators finds operators by their tokens, which are API keys. It is safe for concurrent use.
type Operators struct {
	file *watchfile.File[map[[sha256.Size]byte]Operator]
}

// OpenOperators reads the file that the key of the configuration names. It returns nil for an empty path.
// bad is called when a changed file is unusable; the old tokens stay in effect.
func OpenOperators(key, path string, bad func(error)) (*Operators, error) {
	if path == "" {
		return nil, nil
	}
	file, err := watchfile.Open(key, path, bad, parseOperators)
	return &Operators{file}, err
}

// parseOperators reads a file of API keys whose lines may end with the word read.
func parseOperators(text []byte) (map[[sha256.Size]byte]Operator, error) {
	operators := map[[sha256.Size]byte]Operator{}
	err := eachKey(text, func(n int, words []string) error {
		o := Operator{Name: "key:" + words[0]}
		if len(words) > 2 {
			if o.ReadOnly = words[2] == "read"; !o.ReadOnly || len(words) > 3 {
				return fmt.Errorf("line %d: after the hash of %s may be the word read, and nothing else", n, words[0])
			}
		}
		hash, err := keyHash(n, words)
		if err != nil {
			return err
		}
		if other, taken := operators[hash]; taken {
			return fmt.Errorf("line %d: %s has the hash of %s", n, o.Name, other.Name)
		}
		operators[hash] = o
		return nil
	})
	return operators, err
}

// Find returns the operator who sends a request. The error wraps [ErrUnauthenticated].
func (o *Operators) Find(r *http.Request) (Operator, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return Operator{}, fmt.Errorf("%w: send a management token in the header Authorization: Bearer", ErrUnauthenticated)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > MaxToken {
		return Operator{}, fmt.Errorf("%w: the header Authorization must be Bearer and a management token, once", ErrUnauthenticated)
	}
	found, known := o.file.Get(time.Now())[sha256.Sum256([]byte(token))]
	if !known {
		return Operator{}, fmt.Errorf("%w: the management token is not known", ErrUnauthenticated)
	}
	return found, nil
}
