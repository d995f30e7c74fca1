package security

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/roost-cluster/roost/libs/node/security/watchfile"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Rule allows some principals to send some commands to some entities. Each pattern is a text, or the
// beginning of one followed by *. A command is allowed if each part of one rule has a pattern that
// fits.
type Rule struct {
	// Who are patterns of principals. Those without a name are called anonymous.
	Who []string `yaml:"who"`
	// Types are patterns of entity types.
	Types []string `yaml:"types"`
	// Commands are patterns of commands; empty: all.
	Commands []string `yaml:"commands"`
	// IDs are patterns of entity ids, in which {name} is the principal's name without its issuer;
	// empty: all.
	IDs []string `yaml:"ids"`
}

// PolicySettings is the setting of gateways and regions that names the policy file.
type PolicySettings struct {
	Policy string `key:"policy" help:"file with the commands and entities that each principal may use; see docs/running/security.md. Gateways refuse what it does not allow, and regions check each command from a gateway again. The file is read again when it changes. Empty: a gateway lets every principal send every command, and a region leaves the decision to the gateways"`
}

// Policy is the content of a policy file.
type Policy struct {
	// Allow are the rules. What none of them allows is refused.
	Allow []Rule `yaml:"allow"`
}

// ParsePolicy reads a policy file.
func ParsePolicy(text []byte) (*Policy, error) {
	p := &Policy{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(p); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var errs []error
	for i, r := range p.Allow {
		if len(r.Who) == 0 || len(r.Types) == 0 {
			errs = append(errs, fmt.Errorf("rule %d under allow: who and types must not be empty; write [\"*\"] for all", i+1))
		}
		for _, pattern := range slices.Concat(r.Who, r.Types, r.Commands, r.IDs) {
			if star := strings.IndexByte(pattern, '*'); pattern == "" || star >= 0 && star < len(pattern)-1 {
				errs = append(errs, fmt.Errorf("rule %d under allow: %q is not a pattern: write a text, or its beginning followed by *", i+1, pattern))
			}
		}
	}
	return p, errors.Join(errs...)
}

// Allows reports whether a principal may send a command to an entity.
func (p *Policy) Allows(principal string, e sharding.Entity, command string) bool {
	who, name := principal, PrincipalName(principal)
	if who == "" {
		who = "anonymous"
	}
	for i := range p.Allow {
		r := &p.Allow[i]
		if fits(r.Who, who) && fits(r.Types, string(e.Type)) &&
			(len(r.Commands) == 0 || fits(r.Commands, command)) &&
			(len(r.IDs) == 0 || fitsID(r.IDs, name, string(e.ID))) {
			return true
		}
	}
	return false
}

func fits(patterns []string, text string) bool {
	for _, p := range patterns {
		if begin, open := strings.CutSuffix(p, "*"); open && strings.HasPrefix(text, begin) || p == text {
			return true
		}
	}
	return false
}

// fitsID is fits for patterns that may hold {name}. A name that is not known fits nothing.
func fitsID(patterns []string, name, id string) bool {
	for _, p := range patterns {
		begin, open := strings.CutSuffix(p, "*")
		if strings.Contains(begin, "{name}") {
			if name == "" {
				continue
			}
			begin = strings.ReplaceAll(begin, "{name}", name)
		}
		if open && strings.HasPrefix(id, begin) || !open && begin == id {
			return true
		}
	}
	return false
}

// PrincipalName returns the name in a principal, without what vouches for it.
func PrincipalName(principal string) string {
	kind, rest, _ := strings.Cut(principal, ":")
	if kind == "jwt" {
		_, rest, _ = strings.Cut(rest, "#") // an issuer has no fragment
	}
	return rest
}

// PolicyFile is a policy that follows its file.
type PolicyFile struct{ file *watchfile.File[*Policy] }

// OpenPolicy reads the file that auth.policy names. It returns nil for an empty path: everything is
// allowed. bad is called when a changed file is unusable; the old policy stays in effect.
func OpenPolicy(path string, bad func(error)) (*PolicyFile, error) {
	if path == "" {
		return nil, nil
	}
	file, err := watchfile.Open("auth.policy", path, bad, ParsePolicy)
	return &PolicyFile{file}, err
}

// Check returns an error that names what the principal may not do. A nil PolicyFile allows
// everything.
func (p *PolicyFile) Check(env *sharding.Envelope) error {
	if p == nil || p.file.Get(time.Now()).Allows(env.Principal, env.Entity, env.Command) {
		return nil
	}
	who := env.Principal
	if who == "" {
		who = "anonymous"
	}
	return fmt.Errorf("%s may not send %s to %s", who, env.Command, env.Entity)
}
