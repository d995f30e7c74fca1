// Package link is the data plane: it carries commands from the routers of gateways and of
// other regions (the client side, [Client]) to regions (the server side, [Server]), and
// answers back, in frames over a few TCP or TLS connections.
//
// # Opening
//
// A connection starts as an HTTP/1.1 request on the service port (GET [Path]
// with Upgrade: roost-link/1), so that one port and one TLS configuration serve both. Then each
// side sends one handshake frame. The client's frame has the name of the cluster, the client's
// identity, the incarnation that the client wants to reach, protocol versions, lane and limits. A
// mismatch is refused with the reason as text ([ErrRefused]).
//
// # Lanes
//
// A link to one region has Config.Lanes connections, its lanes. A command takes the lane whose
// number is the index of its shard modulo the number of lanes, so commands of one entity stay
// in order. The lanes open and end together: a [Link] is one set of them, and a command that
// was sent on a Link is answered on the same Link or is in doubt. When a client opens a new
// connection of a lane, the server first stops reading the old one and drops its unread frames,
// so that no command overtakes an earlier one; [Readers] decides when the new one may be read.
//
// The goroutine that reads a connection also calls the callback with the commands of the
// connection. The callback is the one that the Server was made with. If the callback takes
// long, [Conn.Detach] makes another goroutine the reader.
//
// # Writing
//
// A sender appends its frame to a buffer and never waits for the network. If no
// other goroutine is writing, it then writes the whole buffer itself, so that no
// goroutine has to be woken. [Link.Send] yields the processor once before it writes,
// so that other senders can append their frames. On a server, the goroutine that reads a
// connection writes the answers of a batch when it has no more commands to deliver. A caller that
// sends many commands in a row decides when they are written ([Link.Queue], [Link.Flush]).
// So batches form only while work is being done, and nothing waits for a batch to fill.
//
// Each connection has a goroutine that may wait for the network, the writer. What a
// connection does not take at once is left to the writer. Where writes without waiting are
// not possible, as with TLS, the writer writes everything.
//
// Answers that the client does not take yet are buffered. However many there are, the server does
// not close the connection for that. It closes the connection if the client's machine acknowledges
// none of them for Config.Timeout ([ErrSlowReader]). The code that uses the Server must bound the
// buffers: it knows which commands it has accepted, and [Conn.Unsent] returns how much is not
// written yet.
//
// # Frames
//
//	length u32 | kind u8 | body
//
// The length counts kind and body, big endian. Numbers in bodies are minimal
// unsigned varints, except UIDs (8 bytes, big endian) and flags, phases and codes of refusal (one
// byte each). Strings are preceded by their length, and the payload takes the rest. The names of
// types, commands and codes are sent once per connection and after that by number. There is exactly
// one encoding of each message; the decoder refuses all others, and checks every size before it
// allocates.
//
// # What this does not do
//
// A link does not retry, does not store, and does not find out whether a command that it
// lost was handled: it only reports which commands were definitely not sent. It knows
// nothing of shard ownership. It does not authenticate peers; that is left to the TLS
// configuration of listener and dialer.
//
// # Duties of the driver
//
// The pure part is [Readers], and its driver is [Server]. The order of commands rests on
// these duties, so a driver of another kind has them, too:
//
//  1. Readers is used under one lock, by the whole server.
//  2. A connection is welcomed, and then read, only after [Readers.Enter] or
//     [Readers.Leave] has said that it may be read. Its client sends no command before the welcome.
//  3. [Readers.Enter] returns an [Entered]. The connections in its field Older are ended at once, and
//     the commands that they have not delivered are dropped. These connections count as entered until
//     Leave is called for them.
//  4. [Readers.Leave] is called for every connection that was not refused, and only when
//     its reader has ended: nothing of the connection will be read, no callback with its
//     commands is running, and none will begin.
//
// What to write:
//
//	lock()
//	e := readers.Enter(lane, number, c)
//	unlock()
//	end(e.Older...)
//	if e.Refused {
//		return
//	}
//	if e.Read || wait(c.mayRead) { // wait returns false if c has ended
//		welcome(c)
//		read(c) // until it ends, and the last callback has returned
//	}
//	lock()
//	if next, ok := readers.Leave(lane, c); ok {
//		close(next.mayRead)
//	}
//	unlock()
package link
