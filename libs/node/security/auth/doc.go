// Package auth finds out who sends a request to a gateway.
//
// An [Authenticator] finds the *principal* of a request: a name that includes who vouches
// for it, so that equal names of two issuers are two principals.
//
//	jwt:https://login.example#anna   the subject of a JSON Web Token, and its issuer
//	key:billing                      the name of an API key
//	tls:spiffe://shop/billing        the URI of a client's certificate, or its common name
//
// What a principal may do is in a [security.Policy].
//
// # What this does not do
//
// It issues no tokens, and knows nothing of sessions, cookies or passwords. A region cannot check a principal itself,
// and believes the gateway. So anyone who has the certificate of a gateway or of a region can act as any principal.
package auth
