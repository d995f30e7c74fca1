// Package attack attacks a cluster of real processes as its enemies would: with the certificates, tokens, bytes
// and database roles that an enemy could have. Each attack tries to break one protective measure. The measures are
// numbered here; make attack prints a line for each of them, and RUN=S8 runs one.
//
//	S1   certificates: a process without a right certificate is served by no coordinator or region
//	S2   rotation: certificates and their authority are replaced under load, without an error
//	S3   insider: a certificate of one role cannot do what other roles do
//	S4   unknown types: messages of unknown kinds are refused, and a length that is only announced takes no memory
//	S5   bombs: a small compressed body that unpacks to much is refused before it is unpacked
//	S6   slow clients: thousands of clients that stop in the middle or never read are cut off, and others are served
//	     meanwhile; no listener speaks HTTP/2, which has floods of its own
//	S7   authorization: a wrong token is refused, and the rules are applied to the entity that the decoded path of the
//	     URL names, however the path is written
//	S8   smuggling: no bytes of one HTTP request are taken for another request
//	S9   management: the admin API is only on its own listener, changes need a token, and the audit has them
//	S11  ids: an id is only an id, whatever characters it has
//	S12  rates: a client that sends too much must wait, and others do not notice
//	S13  collisions: a hundred thousand ids of one shard do not keep other entities from being served, and operators see
//	     the hot shard
//	S14  database roles: the role of services can neither change events nor write past the fence
//	S15  secrets: no log, audit, command line or printed configuration has a secret
//	S16  containers: what is deployed has no rights that it does not need
//	S17  supply chain: builds depend only on the source and on few modules, which are checked, and whose licences are allowed
//	S18  broken parsers: garbage ends only its own connection, and a panic of a handler only its own command
//	S18  crashes: a panic on a connection ends that connection only; a panic in a core ends the process, and others take over
//	S19  impersonation: the certificate of one region cannot speak for another one, nor give orders
//	S20  questions: operators are told what gateways know, although nobody else may ask these
//	S21  crowds: a hundred clients that send the longest bodies at once do not make a process take more than it may have
//
// There is no S10. It would be server-side request forgery (requests to URLs that a client chooses), and nothing in
// Roost makes such requests.
//
// # What this does not do
//
// It does not fail because something is slow: that depends on the machine. It prints how long commands took before and
// during an attack, and fails if one of them is refused, or if memory or files are not given back. The
// tests of single functions, and the fuzz targets of make fuzz, attack these functions in their own packages.
package attack
