// Package operate decides how a built-in command of an operator is brought to the region that
// serves its entity: when the command is sent, when it is sent again, and which outcome is
// reported in the end. A [Machine] is for one command.
//
// The command is sent to the owner of its shard, at an epoch that no region has refused. An attempt
// that was not answered is repeated with the same key, so the command has one effect. Once an attempt
// was not answered, the command is in doubt: a later refusal is answered as unknown, because the unanswered
// attempt may have been applied, or may still arrive.
//
// The package does not use a router (libs/router). A router watches the route table, and keeps a loop and a link for each
// region, which pays if commands are frequent. Operators send few commands per day, and send them to the process that has
// the table. So the newest row is looked up before each attempt, and a link lasts for one attempt.
//
// # What this does not do
//
// The machine does not look anything up, and opens no link: a [Driver] does. It does not decide who may send what.
//
// # Duties of the driver
//
//  1. The first input is Begin. Each of the outputs [Find], [Send] and [Wait] is answered by one
//     input before Step receives any other input. Only [CallerGone] (the caller no longer waits for
//     the result) may come at any time. After [End] there are no more inputs.
//  2. [Allocate] (it asks the coordinator for an owner of the shard) is not answered.
//  3. All attempts have the same idempotency key. An attempt that may have left this process is
//     reported with [Failed.Sent] set.
package operate
