package errornumber

import "github.com/roost-cluster/roost/libs/sharding"

// The numbers. Each has an entry below.
const (
	InvalidRequest    Number = "ROOST-1001"
	UnknownType       Number = "ROOST-1002"
	UnknownCommand    Number = "ROOST-1003"
	Overloaded        Number = "ROOST-1004"
	Unavailable       Number = "ROOST-1005"
	TooLate           Number = "ROOST-1006"
	KeyConflict       Number = "ROOST-1007"
	Failed            Number = "ROOST-1008"
	Refused           Number = "ROOST-1009"
	NoRoute           Number = "ROOST-1010"
	TooLong           Number = "ROOST-1011"
	UnsupportedMedia  Number = "ROOST-1012"
	StrangeOrigin     Number = "ROOST-1013"
	ReplyLost         Number = "ROOST-1014"
	OtherVersion      Number = "ROOST-1015"
	Unauthenticated   Number = "ROOST-1016"
	PermissionDenied  Number = "ROOST-1017"
	RateLimited       Number = "ROOST-1018"
	EntityQuarantined Number = "ROOST-1019"

	NoAnswer   Number = "ROOST-1101"
	InDoubt    Number = "ROOST-1102"
	KeyExpired Number = "ROOST-1103"
)

var entries = []Entry{
	{
		Number: InvalidRequest, Answers: []Answer{{"invalid_argument", 400}, {"malformed", 400}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "a name, a header or the payload is wrong",
		Causes: "The name of a type, an id, a command, a key or a header is not allowed, a header is empty, given twice or unknown (Roost-…), the request " +
			"has a query, a GET has a body, or the input does not fit the command. " +
			"With the code malformed, a Twirp request cannot be read, or has a field that its message does not have.",
		Action: "Correct what the message names. If the body broke off, look at the network and at proxies, and send the request again.",
	},
	{
		Number: UnknownType, Answers: []Answer{{"not_found", 404}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "no region has ever hosted the type",
		Causes:  "The name of the type is misspelt, the gateway is one of another cluster, or no region with the type has ever been started.",
		Action:  "Compare the name with the types in the message. Otherwise start a region that hosts the type; roost region ls lists those that run.",
	},
	{
		Number: UnknownCommand, Answers: []Answer{{"unimplemented", 501}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the type has no such command",
		Causes:  "The name of the command is misspelt, or no version of the type that has registered has it.",
		Action:  "Compare the name with the commands in the message. Otherwise roll out a version of the regions that has the command.",
	},
	{
		Number: Overloaded, Answers: []Answer{{"resource_exhausted", 429}}, Outcome: sharding.NotApplied, Repeat: Later,
		Meaning: "too much is in progress in the gateway, the region or the entity",
		Causes: "The mailbox of the entity is full or would take too long, too many commands wait for its shard or in the gateway, " +
			"there is no room for the request or the reply, or the journal has no room.",
		Action: "Send it again after Retry-After, with growing pauses. If it stays, ask roost entity explain TYPE/ID what is full: one hot entity does " +
			"not become faster by more regions. The message names the setting of a limit that was reached.",
	},
	{
		Number: Unavailable, Answers: []Answer{{"unavailable", 503}}, Outcome: sharding.NotApplied, Repeat: Later,
		Meaning: "no region serves the entity now, or the process stops or has too many connections",
		Causes: "The shard of the entity has no owner yet, no registered region hosts the type or reads its stored data, the journal " +
			"does not answer, the route table is not known yet, the keys of a token's issuer are not known, the gateway stops, or a listener has " +
			"too many connections, or serves nothing more on this one after a chunked request. At the management address: the audit cannot be written.",
		Action: "Send it again after Retry-After. If it stays, roost entity explain TYPE/ID names the cause, and roost cluster status the processes that are missing.",
	},
	{
		Number: TooLate, Answers: []Answer{{"deadline_exceeded", 408}}, Outcome: sharding.NotApplied, Repeat: Later,
		Meaning: "the time was over before the command could run",
		Causes: "The command has waited for its shard, for the load of the entity or in the mailbox until its deadline, a handler did not end in its time and was " +
			"undone, or the body of the request did not arrive in time (service.body_timeout, service.read_timeout).",
		Action: "Send it again, with more time if it is usually short (Roost-Timeout). The message names what the command waited for; " +
			"roost cluster slow shows where the time of slow commands goes.",
	},
	{
		Number: KeyConflict, Answers: []Answer{{"already_exists", 409}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the idempotency key was used for another command",
		Causes:  "The entity has executed another command, or the same one with another payload, under this key.",
		Action:  "Make a new key for each command, and keep it only for its repeats. Repeats must have the same bytes as the first attempt.",
	},
	{
		Number: Failed, Answers: []Answer{{"internal", 500}, {"data_loss", 500}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the handler failed and was undone, or stored data cannot be read",
		Causes: "internal: the handler panicked or returned an error that is not a business error. data_loss: records or the " +
			"snapshot of the entity are damaged, or the running version cannot read them.",
		Action: "Look for the reference of the message in the log of the region: it has the error itself. Correct the code of the entity; for data_loss run " +
			"a version that reads the stored data, or see roost journal check and roost journal repair record TYPE/ID.",
	},
	{
		Number: Refused, Answers: []Answer{}, Outcome: sharding.NotApplied, Repeat: IfAborted,
		Meaning: "refused for another reason, by its code",
		Causes: "failed_precondition: what the command does is not allowed there or would always be refused, such as more than a " +
			"turn may store or send, or a call cycle. aborted: entities waited for each other, or the command was overtaken. Other codes come from an entity that the command asked.",
		Action: "The message has the reason. For aborted, send the command again. Otherwise change the command or the code of the entity.",
	},
	{
		Number: NoRoute, Answers: []Answer{{"bad_route", 404}, {"bad_route", 405}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "there is no such path, or a GET of a command that is not read-only (405)",
		Causes:  "The path is not /v1/TYPE/ID/COMMAND, has an empty part, . or .., or the method is not allowed for it.",
		Action:  "In an id, write / as %2F and . as %2E. Send commands that may change something by POST.",
	},
	{
		Number: TooLong, Answers: []Answer{{"invalid_argument", 413}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the payload or the message is too long",
		Causes: "The payload is longer than gateway.max_body, an AskMany has more items than gateway.max_items, or a Twirp message " +
			"is too long, expands to too much, or has too many elements.",
		Action: "Send less, or send it in parts.",
	},
	{
		Number: UnsupportedMedia, Answers: []Answer{{"invalid_argument", 415}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the payload is neither JSON nor protobuf, or is encoded",
		Causes:  "The header Content-Type, Content-Encoding or a character set is not supported; curl -d sends a form.",
		Action:  "Send application/json or application/protobuf without compression, such as by curl --json.",
	},
	{
		Number: StrangeOrigin, Answers: []Answer{{"permission_denied", 403}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "a web page of another origin, or a host name that is not ours",
		Causes:  "A browser sends the request for a page of another origin, or Host is a name that a listener on loopback does not have.",
		Action:  "Add the origin of the page to http.allowed_origins, or the name to http.allowed_hosts, if you trust it.",
	},
	{
		Number: ReplyLost, Answers: []Answer{{"resource_exhausted", 429}}, Outcome: sharding.Executed, Repeat: WithKey,
		Meaning: "it ran, and there is no room for its reply",
		Causes:  "The reply is much longer than replies to such commands before it, and there was no room for it in the region or the gateway.",
		Action: "Send it again under the same key: it does not run again, and is answered with the stored reply. Without a key, read the " +
			"entity. If it happens often, raise gateway.reply_bytes and region.reply_bytes.",
	},
	{
		Number: OtherVersion, Answers: []Answer{{"unavailable", 503}}, Outcome: sharding.NotApplied, Repeat: Later,
		Meaning: "the version that serves the entity does not have the command, another version has it",
		Causes:  "A rollout is in progress, and the entity is still, or again, in a region of a version without the command.",
		Action:  "Send it again after Retry-After. Send a new command only when all regions have it (roost rollout status). See docs/running/rolling-out.md.",
	},
	{
		Number: Unauthenticated, Answers: []Answer{{"unauthenticated", 401}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the request has no usable token, API key or certificate",
		Causes:  "The header Authorization is missing, the token has expired or is for another audience, the API key is unknown or revoked, or the management address needs a token.",
		Action:  "Send Authorization: Bearer with a valid token or API key; with roost: --token-file. See docs/running/security.md.",
	},
	{
		Number: PermissionDenied, Answers: []Answer{{"permission_denied", 403}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the policy, or the role of the certificate or token, forbids the request",
		Causes: "No rule of auth.policy of the gateway or of the region allows the command to this sender, the command is kept for Roost itself, the " +
			"certificate of a peer is for another role, or a management token may only read.",
		Action: "Allow it in the file of auth.policy, or send it as a principal that may. See docs/running/security.md.",
	},
	{
		Number: RateLimited, Answers: []Answer{{"resource_exhausted", 429}}, Outcome: sharding.NotApplied, Repeat: Later,
		Meaning: "the principal sends more than gateway.principal_rate",
		Causes:  "A sender, or an address or network without a principal, has sent more commands per second to this gateway than it may.",
		Action:  "Wait as long as Retry-After says. If the sender needs more, raise gateway.principal_rate.",
	},
	{
		Number: EntityQuarantined, Answers: []Answer{{"failed_precondition", 412}}, Outcome: sharding.NotApplied, Repeat: Useless,
		Meaning: "the entity is quarantined: its commands ended regions",
		Causes:  "Regions ended one after the other while the entity ran, or an operator has put it into quarantine.",
		Action:  "See roost entity quarantine, find the cause, and release the entity with roost entity quarantine --undo. See docs/running/repair.md.",
	},
	{
		Number: NoAnswer, Answers: []Answer{{"deadline_exceeded", 408}}, Outcome: sharding.Unknown, Repeat: WithKey,
		Meaning: "no answer within the time",
		Causes:  "The command was sent to a region, and neither the region nor the journal had answered at the deadline.",
		Action: "Send it again under the same key: it takes effect at most once. Without a key, read the entity before you send it again. " +
			"roost entity explain TYPE/ID finds what keeps commands waiting.",
	},
	{
		Number: InDoubt, Answers: []Answer{}, Outcome: sharding.Unknown, Repeat: WithKey,
		Meaning: "the link was lost, the shard moved, or the journal is silent, after the command was sent",
		Causes:  "The region that had the command crashed, was cut off or lost the shard, and the outcome could not be found out in time; or the command failed after it had asked other entities to change something. A volatile entity that fails loses what it had in memory.",
		Action:  "Send it again under the same key: it takes effect at most once. Without a key, read the entity before you send it again.",
	},
	{
		Number: KeyExpired, Answers: []Answer{{"aborted", 409}}, Outcome: sharding.Unknown, Repeat: Useless,
		Meaning: "the key is too old to tell whether the command was run",
		Causes:  "The key is older than what the entity remembers, which is at least the keys of 24 hours and its newest 100,000 keys.",
		Action:  "Find out from the state of the entity whether the command was run. If it was not, and is still wanted, send it under a new key.",
	},
}
