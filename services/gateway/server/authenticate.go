package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/auth"
	"github.com/roost-cluster/roost/libs/sharding"
)

// openAuth opens the files that say who sends a command, and what they may do.
func (s *Server) openAuth() (err error) {
	bad := func(err error) {
		s.log.Error("new keys or rules are unusable, keeping old", "error", err)
	}
	if s.auth, err = auth.New(s.cfg.Auth, nil, bad); err != nil {
		return err
	}
	if s.policy, err = security.OpenPolicy(s.cfg.Auth.Policy, bad); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// authenticate finds the principal of a request. It comes before everything else, so that an unknown sender learns
// nothing and costs little.
func (s *Server) authenticate(r *http.Request, env *sharding.Envelope) *failure {
	principal, err := s.auth.Principal(r)
	switch {
	case err == nil:
		env.Principal = principal
		return nil
	case errors.Is(err, auth.ErrUnavailable):
		s.log.Warn("a token cannot be checked", "error", err)
		f := refusal(sharding.Unavailable, "the token cannot be checked now, because the keys of its issuer are not known")
		f.retryAfter = s.retryHint
		return f
	}
	return refusal(sharding.Unauthenticated, err.Error())
}
