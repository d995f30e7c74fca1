// Package agent drives the membership core of package gossip: one loop owns the
// machine, feeds it ticks and the messages that arrive, and sends its messages to
// other nodes as Twirp posts over HTTP, or on streams. The caller provides the listener,
// the client, the dialer and TLS.
//
// # Streams
//
// A post costs both sides a request, an answer and several changes of goroutines, most of the cost of an
// idle cluster. So where heartbeats go, or are answered, messages go on a stream: a connection that begins
// as an HTTP request with an Upgrade and then carries posts as frames, in one direction, without answers.
// The answer to a post reports whether the node accepts streams; one that has too many does not, and gets
// posts. Long messages are posted, too.
//
// A stream is checked as posts are: by its certificate, and each frame by the member in
// whose name it comes. A stream ends with the first frame that is refused for that. If
// nothing comes back for too long, the sender gives its stream up and posts, on a new
// connection.
//
// # Evidence
//
// A refused connection to a member that accepted messages before is evidence that
// its process is gone: the old connection ended, and nothing listens any more. The
// agent itself reports this to the core. When a stream is ended by the other side, it
// dials at once, so that this does not wait for the next message. Other parts of the process that notice it on
// their own connections report it with [Agent.Evidence].
//
// # Limits
//
// A post or frame is refused before it is decoded if it is too long, even after decompression, has
// too many messages or members, or would need too much memory when decoded; see package
// bounded. Messages that arrive wait in a bounded inbox; those that do not fit are
// refused. Each address has its own queue of outgoing messages, so that a hanging
// peer does not delay others. A full queue drops its oldest message, because newer
// gossip replaces older. The agent never repeats a message: the protocol survives
// loss.
//
// # What this does not do
//
// It does not decide who may connect: put authentication in front of
// [Agent.Handler]. It does not stop the process of a downed node; [Agent.Run]
// returns and leaves that to the caller.
package agent
