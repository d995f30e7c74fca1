// Package diagnosis finds out why a command for an entity waits or fails now, and what is unsafe or unwise in how a cluster
// is set up.
//
// # Commands
//
// An [Explainer] queries all processes on the way of a command at the same time; an [Observer] answers in each of them.
// [Of] judges by the answers, and by silence:
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
// # Clusters
//
// [Examine] judges a cluster by how its processes describe themselves:
//
//	advice := diagnosis.Examine(&diagnosis.Cluster{Processes: processes, Silent: silent})
//
// # What this does not do
//
// The rules query no process and read no clock: the evidence has the age of each of its parts. They judge one moment. A
// cause that was gone before the question is in the logs and metrics, not here. The Explainer repeats no question: the
// operator can ask again. The active coordinator collects the evidence for [Examine] (services/coordinator/console).
package diagnosis
