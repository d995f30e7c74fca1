package security

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// MaxToken is the longest token that is looked at.
const MaxToken = 16 << 10

// APIKeyPrefix begins every API key, so that scanners for leaked secrets find one, and so that it
// differs from a token.
const APIKeyPrefix = "roost_"

// NewAPIKey returns an API key with 256 random bits, and the line with its name and hash for the
// file of API keys.
func NewAPIKey(name string) (key, line string, err error) {
	if err := checkKeyName(name); err != nil {
		return "", "", err
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	key = APIKeyPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(key))
	return key, name + " " + hex.EncodeToString(hash[:]), nil
}

func checkKeyName(name string) error {
	if strings.ContainsAny(name, " \t#*") {
		return fmt.Errorf("the name %.100q of an API key must not have blanks, # or *", name)
	}
	return sharding.CheckText("the name of an API key", name, 100)
}

// eachKey calls f with the words of each line of a file of keys: a name, a hash, and perhaps more.
func eachKey(text []byte, f func(n int, words []string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			return fmt.Errorf("line %d must have a name and a SHA-256 hash in hexadecimal, separated by a blank; roost auth key new writes such a line", n)
		}
		if err := checkKeyName(words[0]); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := f(n, words); err != nil {
			return err
		}
	}
	return lines.Err()
}

// keyHash returns the hash in the words of a line.
func keyHash(n int, words []string) (hash [sha256.Size]byte, err error) {
	raw, err := hex.DecodeString(words[1])
	if err != nil || len(raw) != len(hash) {
		return hash, fmt.Errorf("line %d: the hash of %s is not %d hexadecimal digits; roost auth key new writes one", n, words[0], 2*len(hash))
	}
	copy(hash[:], raw)
	return hash, nil
}

// ParseAPIKeys reads a file of API keys: the principals by the hash of their key.
func ParseAPIKeys(text []byte) (map[[sha256.Size]byte]string, error) {
	keys := map[[sha256.Size]byte]string{}
	err := eachKey(text, func(n int, words []string) error {
		if len(words) > 2 {
			return fmt.Errorf("line %d must have a name and a SHA-256 hash in hexadecimal, and nothing else", n)
		}
		hash, err := keyHash(n, words)
		if err != nil {
			return err
		}
		if keys[hash] != "" {
			return fmt.Errorf("line %d: %s has the hash of another name", n, words[0])
		}
		keys[hash] = "key:" + words[0]
		return nil
	})
	return keys, err
}
