// Package diagnosis names the reason why a command for an entity waits or fails now. It judges by what the processes on
// the way of the command have answered, and by their silence.
//
//	findings := diagnosis.Of(&diagnosis.Evidence{Type: "Cart", ID: "anna", Parties: parties})
//
// The first finding is the verdict. If something keeps commands from being executed, the verdict is the cause of the
// other findings, as far as the evidence shows that. Otherwise it reports that commands are executed.
//
// Findings about whole shards or regions come first. A cause comes before its consequences: "the region is paused"
// before "the shard does not start", and "the handler hangs" before "the mailbox is full". Findings about a single
// gateway come last, unless the operator has asked that gateway.
//
// # What this does not do
//
// It asks no process and reads no clock: the evidence has the age of each of its parts. It judges one moment. A
// cause that was gone before the question is in the logs and metrics, not here.
package diagnosis
