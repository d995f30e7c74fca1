// Package agent drives the membership core of package gossip: one loop owns
// the machine, takes what arrives, ticks, and sends what comes out to the
// other nodes as Twirp posts over HTTP. Listener, client and TLS are the
// caller's.
//
// # Evidence
//
// A refused connection to a member that took messages before is evidence that
// its process is gone: the old connection ended, and nobody listens any more.
// The agent reports it to the core by itself. Others who notice the same on
// connections of their own report it with [Agent.Evidence].
//
// # Limits
//
// A post is refused before it is decoded if it is too long, expands to too much,
// has too many messages or members, or would take memory out of proportion; see
// package bounded. What arrives waits in a bounded inbox; what does not fit is refused. Each
// address has a queue of its own for what goes out, so that a hanging peer
// delays nobody else; when it is full the oldest message goes, since newer
// gossip outdates older. Nothing is repeated here: the protocol survives loss.
//
// # What this does not do
//
// It does not decide who may connect: put authentication in front of
// [Agent.Handler]. It does not stop the process of a downed node; [Agent.Run]
// returns and leaves that to the caller.
package agent
