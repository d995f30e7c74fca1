// Package due has what the cores for due entries share. Such a core owns entries that the journal stores for
// the open shards of a process (reminders, remembered entities, sends, purges), holds some of them in
// memory, and acts on each when it is due. [Sweeper] reads the entries, page by page. [Failing] has the
// elements that have failed, and retries them after a back-off. Both are plain values inside a core.
//
// # Sweeping
//
// A sweep of a shard reads its entries in their order, one page at a time. The Sweeper has the open shards
// and, of each, the time at which its next read may begin. One read is in progress at a time, because loads
// of entities use the same connections. It asks for the next page of several shards. Which entries these are,
// and how far the sweep of each shard has come, is up to the core.
//
// Shards take turns: the next read begins after the last shard of the one before it. If there is
// no room for the entries of a shard, it waits until others have left the memory. A read that fails is retried after a pause, which
// grows with each failure in a row. A shard whose data is damaged has a pause of its own, so it holds back
// no other shard.
//
// A page is older than what has happened since its read began. If the shard was closed meanwhile, the
// Sweeper drops its part of the page. Whatever else may have changed, for example that an entry was set again,
// is for the core to notice: only the core knows which change it has seen.
//
// # What this does not do
//
// The package does not decide which entries are due or in memory, and does not bound how many actions are in
// progress: entries differ in that. It reads no clock and knows no journal.
package due
