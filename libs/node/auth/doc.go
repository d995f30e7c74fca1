// Package auth finds out who sends a request, and decides what they may do.
//
// An [Authenticator] finds the *principal* of a request to a gateway: a name that includes who vouches
// for it, so that equal names of two issuers are two principals.
//
//	jwt:https://login.example#anna   the subject of a JSON Web Token, and its issuer
//	key:billing                      the name of an API key
//	tls:spiffe://shop/billing        the URI of a client's certificate, or its common name
//
// A [Policy] defines the commands that a principal may send, and the entities that may receive them.
// Gateways and regions each have one. A gateway asks its Policy before it admits a command. A region
// asks its own Policy before it runs the command.
//
// # What this does not do
//
// It issues no tokens, and knows nothing of sessions, cookies or passwords. A region cannot check a principal itself,
// and believes the gateway. So anyone who has the certificate of a gateway or of a region can act as any principal.
package auth
