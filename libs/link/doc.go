// Package link is the data plane: it carries commands from gateways (the
// client side, [Peer]) to regions (the server side, [Server]) and answers
// back, in frames over a few TCP or TLS connections.
//
// # Opening
//
// A connection starts as an HTTP/1.1 request on the service port (GET [Path]
// with Upgrade: roost-link/1), so that one port and one TLS set-up serve both.
// Then each side sends one handshake frame: cluster name, who it is, which
// incarnation it wants to talk to, protocol versions, lane and limits. What
// does not fit is refused with the reason as text ([ErrRefused]).
//
// # Lanes
//
// A link to one region is Config.Lanes connections. A command takes the lane
// shard mod lanes, so commands of one entity stay in order. The lanes live and
// die together: a [Link] is one incarnation of all of them, and what was sent
// on one Link is answered on it or in doubt. A server reads a new connection
// of the same client and lane only after it has stopped reading the older one
// and dropped its unread frames, so nothing overtakes; [Readers] decides that.
//
// The goroutine that reads a connection also hands its commands over. When that
// takes long, [Conn.ReadOn] puts another goroutine in its place.
//
// # Writing
//
// A sender appends its frame to a buffer and never waits for the network. Who
// finds nobody writing writes all that has gathered itself, in one go: no other
// goroutine has to be woken for it. [Link.Send] yields the processor once
// before, so that others who are about to send can join; a server's reader
// writes the answers of a batch when it has no more commands to hand over; and
// who has many commands in a row says when ([Link.Flush]). A batch therefore
// forms only while somebody is at work anyway, and nobody waits for a batch to
// fill. What a connection does not take at once is left to a goroutine that may
// wait, the writer of the connection; so is everything where writing without
// waiting is not to be had, as with TLS.
//
// Answers that the other side does not take yet are held and written as it does.
// A server cuts a connection only if the other side's system acknowledges none of
// them for Config.Timeout ([Stalled]); their number and size never cut it. Who answers
// bounds what is held: it knows what it has taken on, and [Conn.Unsent] says what
// waits.
//
// # Frames
//
//	length u32 | kind u8 | body
//
// The length counts kind and body, big endian. Numbers in bodies are minimal
// unsigned varints, strings carry their length in front, the payload is what
// remains. The names of types, commands and codes are sent once per connection
// and then by number. There is exactly one encoding of each message; the
// decoder refuses all others, and looks at every size before it allocates.
//
// # What this does not do
//
// A link does not retry, does not store, and does not find out whether a
// command that it lost was handled: it only says which ones were definitely
// not sent. It knows nothing of shard ownership. It authenticates nobody; that
// is left to the TLS configuration of listener and dialer.
package link
