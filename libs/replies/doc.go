// Package replies bounds the memory that replies take. The size of a reply is not known
// before the command has run. So an admitted command reserves an estimate: the size of
// earlier replies to the same kind of command ([SizeEstimate] learns it). The reservation
// of one command is its [Ticket]. Once the reply exists, it counts with its real size until
// it is sent. A refusal is a reply too, and needs a Ticket.
//
// A region has a [Budget], shared by its connections. Commands that exceed it wait in the
// [Queue] of their connection, before they can have any effect. A command with a small reply
// may overtake commands with large ones, but never a command for the same entity. A command
// may wait only for a part of the time before its deadline; then it is taken out of the queue and
// refused. The commands for one entity may use only a share of their connection's capacity. Further
// commands for that entity wait in a list of their own. So an entity whose turns never end does not
// use up the share of its connection.
//
// Connections share the budget by dynamic thresholds, as the ports of a switch share
// its buffer: no connection may hold more than what is still free. So a few connections
// whose clients do not read cannot take the whole budget.
//
// # What this does not do
//
// The package counts, and holds waiting commands in their order. It sends no refusals itself.
// It has no locks and no clock.
//
// # Duties of the driver
//
//  1. A Budget, its Queues and their SizeEstimates are used by one goroutine at a time; the times
//     come from a monotonic clock.
//  2. Every command goes through [Queue.Admit] in the order in which its connection brought
//     it, before it can have any effect. Admit returns a verdict. [Admitted]: the driver runs
//     the command. [Waits]: the queue keeps the command, and the driver does nothing more
//     with it. [Dropped]: the connection has ended, and the driver forgets the command.
//     [Full]: the driver refuses the command.
//  3. If Queue.Admit returns Full, the command has no ticket. Its refusal gets one from
//     [Budget.Reserve]. If Budget.Reserve has no ticket either, the driver tries again later, and
//     reads nothing more from the connection until then.
//  4. Every ticket is given back by one [Budget.Answered], after its reply was handed to
//     the connection, and after [Budget.SetUnsent] has noted how much the connection has not
//     sent yet. If a reply is larger than expected, [Budget.Grow] is called first. If Grow
//     reports that there is no capacity, the reply is replaced by the one that [NoRoom] returns.
//  5. SetUnsent is called again for every connection at every tick, because connections send
//     without reporting it. After that, and after every Answered, [Queue.Next] is called
//     for all queues until none admits anything.
//  6. [Queue.Late] is called for every queue at every tick. The commands that it returns are
//     refused. It returns the tickets of these refusals as well.
//  7. When a connection has ended, its queue is dropped ([Queue.Drop]) before anything
//     that the connection brought is looked at again.
//
// The loop to write, under one lock:
//
//	arrive: for each command, in order:
//		request := replies.Request{Entity: …, Estimate: …, Size: …, Deadline: …}
//		switch ticket, verdict := queue.Admit(budget, now, &request, &command); verdict {
//		case replies.Admitted:
//			run(command, ticket)
//		case replies.Full:
//			refuse(command) // with a ticket from budget.Reserve; read no further until there is one
//		}
//	answered: connection.Send(reply)
//		budget.SetUnsent(&queue.Account, connection.Unsent()) // Account: what the connection uses of the budget
//		budget.Answered(ticket, size)
//		admit()
//	tick: for each connection:
//			budget.SetUnsent(&queue.Account, connection.Unsent())
//			refuse(queue.Late(budget, now, &refusals)...) // refusals is the SizeEstimate of refusals
//		admit()
//	admit: for each queue:
//		for command, ticket, ok := queue.Next(budget); ok; command, ticket, ok = queue.Next(budget) {
//			run(command, ticket)
//		}
package replies
