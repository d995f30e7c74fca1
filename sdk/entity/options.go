package entity

import "time"

// Options of a command for the time that it takes. Each send, timer and reminder has its command's options;
// without them, settings of the region decide. A handle is only a name with options: a second handle for
// the same command may have others, for sends that are more urgent.

// Timeout sets how long the command may take if no caller waits for it: one attempt of a [Handle.Send], from its
// beginning; and the command of a timer, of a reminder, or one that takes an answer ([ReplyTo]), from the moment at which
// it is due. Then the context of the handler ends. A send is tried again. 20 ms to 1 min; without it, region.sends.timeout
// (10 s) is for sends, and region.firing_timeout (30 s) for the others.
//
// An attempt of a send has the Timeout of the sender's handle. A program that sends commands to entities of
// another program declares it for itself.
func (h *Handle[In, Out]) Timeout(d time.Duration) *Handle[In, Out] {
	h.options.Timeout = d
	return h
}

// Retry sets the pauses between two attempts of a [Handle.Send] of the command, and between two attempts to have its answer
// taken: least after the first failure, and doubled with each further one up to most. A random part of at most half is
// subtracted. 20 ms to 24 h; without it, region.sends.retry_min (1 s) and region.sends.retry_max (1 min).
func (h *Handle[In, Out]) Retry(least, most time.Duration) *Handle[In, Out] {
	h.options.RetryMin, h.options.RetryMax = least, most
	return h
}

// MaxAge bounds the time that a [Handle.Send] of the command is retried, from the time at which it was
// stored. Then it is a dead letter, or its sender gets an answer by [ReplyTo]. At least 20 ms; without it,
// region.sends.max_age (23 h). A turn that sends with a MaxAge of more than region.dedupe_age (24 h) less
// an hour is undone and refused as failed_precondition: the target might have forgotten that it has
// executed the command.
func (h *Handle[In, Out]) MaxAge(d time.Duration) *Handle[In, Out] {
	h.options.MaxAge = d
	return h
}
