package load

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// call is one call of a client.
type call struct {
	*Load
	client int
	list   string
	kind   history.Kind
	keyed  bool
	twice  bool // send it to two gateways at once
	again  bool // send it once more after its answer
	big    bool // a read with a large answer
	// appending is true if the command is Append, which some regions do not know yet.
	appending bool
}

type addRequest struct {
	Value int64 `json:"value"`
}

// keyOf returns the idempotency key of the addition of a value.
func keyOf(value int64) string { return fmt.Sprintf("key-%d", value) }

// operation does one operation, and returns when it has ended.
func (c *call) operation(ctx context.Context) history.Op {
	o := history.Op{Client: c.client, List: c.list, Kind: c.kind}
	command, body := "Get", any(struct{}{})
	switch {
	case c.kind == history.Add:
		o.Value = c.value.Add(1)
		command, body = "Add", addRequest{o.Value}
		if c.keyed {
			o.Key = keyOf(o.Value)
		}
		if c.keyed && o.Value%2 == 0 && c.appends.Load() {
			command, c.appending = "Append", true
			var cancel func()
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), rollout)
			defer cancel()
		}
	case c.kind == history.Refuse:
		command, o.Key = "Refuse", keyOf(c.value.Add(1))
	case c.kind == history.Peek:
		command = "Peek"
	case c.big:
		command = "Big"
	}
	path, key := "/v1/List/"+c.list+"/"+command, o.Key
	o.Call = time.Since(c.began)
	var second chan Answer
	if c.twice {
		second = make(chan Answer, 1)
		go func() { second <- c.repeat(ctx, c.client+1, path, key, body) }()
	}
	a := c.repeat(ctx, c.client, path, key, body)
	answers := []Answer{a}
	if c.twice {
		answers = append(answers, <-second)
	}
	if c.again && a.Outcome == history.Executed {
		answers = append(answers, c.Post(ctx, c.client+1, path, key, body))
	}
	c.conclude(&o, answers)
	if c.appending {
		c.appended(time.Since(c.began) - o.Call)
	}
	return o
}

// conclude sets the outcome of an operation from the outcomes of all its attempts. The
// first answer counts. Without one, a single unknown outcome makes it unknown.
func (c *call) conclude(o *history.Op, answers []Answer) {
	o.Outcome = history.NotApplied
	for _, a := range answers {
		o.Return = max(o.Return, a.At)
		if a.Outcome == history.Unknown {
			o.Outcome = history.Unknown
		}
	}
	first := true
	for _, a := range answers {
		if a.Outcome != history.Executed {
			continue
		}
		r, err := c.reply(a.Body)
		if err != nil {
			c.problem("an answer that is not the reply of a list: %v: %.200q", err, a.Body)
			continue
		}
		if first {
			o.Outcome, o.Reply, o.Return, first = history.Executed, r, a.At, false
			continue
		}
		o.Return = min(o.Return, a.At)
		o.Repeats = append(o.Repeats, r)
	}
}

// reply decodes the answer of a list.
func (c *call) reply(body []byte) (history.Reply, error) {
	if c.kind == history.Refuse {
		var e struct{ Msg string }
		if err := json.Unmarshal(body, &e); err != nil {
			return history.Reply{}, err
		}
		return history.ParseReply(e.Msg)
	}
	var r history.BigReply
	if err := json.Unmarshal(body, &r); err != nil {
		return history.Reply{}, err
	}
	if c.big && r.Padding != history.Padding(r.Hash) {
		return history.Reply{}, fmt.Errorf("%d bytes of padding do not match the hash %d", len(r.Padding), r.Hash)
	}
	return r.Reply, nil
}

// tally calls a volatile entity. Nothing is promised about its state, but an answer must be
// well-formed.
func (c *call) tally(ctx context.Context) {
	a := c.Post(ctx, c.client, "/v1/Tally/"+c.list+"/Count", "", struct{}{})
	var r history.Reply
	if err := json.Unmarshal(a.Body, &r); a.Outcome == history.Executed && (err != nil || r.Length < 1) {
		c.problem("an answer that is not the reply of a tally: %.200q", a.Body)
	}
}

// repeat sends an operation until it is answered or its time is over. A write without a key
// is sent once.
func (c *call) repeat(ctx context.Context, gateway int, path, key string, body any) Answer {
	doubt := false
	pause := 20 * time.Millisecond
	for {
		a := c.try(ctx, gateway, path, key, body)
		doubt = doubt || a.Outcome == history.Unknown
		if a.Outcome != history.Executed && doubt {
			a.Outcome = history.Unknown
		}
		if a.Outcome == history.Executed || c.kind == history.Add && !c.keyed {
			return a
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return a
		}
		gateway++
		pause = min(2*pause, 250*time.Millisecond)
	}
}

// try is one attempt of an operation.
func (c *call) try(ctx context.Context, gateway int, path, key string, body any) Answer {
	if c.appending {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, attempt)
		defer cancel()
	}
	return c.Post(ctx, gateway, path, key, body)
}

// item is one command of an AskMany.
type item struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Command string `json:"command"`
	Payload []byte `json:"payload"`
	Key     string `json:"idempotency_key,omitempty"`
	Timeout int64  `json:"timeout_ms"`
}

// sendBatch sends a batch once: three values for one list, which must keep their order, and
// between them one for another list.
func (c *call) sendBatch(ctx context.Context, other string) {
	batch := int(c.batch.Add(1))
	var ops []history.Op
	var items []item
	at := time.Since(c.began)
	for i, list := range []string{c.list, other, c.list, c.list} {
		o := history.Op{Client: c.client, List: list, Kind: history.Add, Value: c.value.Add(1), Call: at, Batch: batch, Index: i}
		it := item{Type: "List", ID: list, Command: "Add", Timeout: (patience - 500*time.Millisecond).Milliseconds()}
		it.Payload, _ = json.Marshal(addRequest{o.Value})
		if batch%2 == 0 {
			o.Key = keyOf(o.Value)
			it.Key = o.Key
		}
		ops, items = append(ops, o), append(items, it)
	}
	a := c.Post(ctx, c.client, "/twirp/roost.gateway.v1.Entities/AskMany", "", map[string]any{"items": items})
	var res struct {
		Results []struct {
			Payload []byte
			Error   *struct{ Code, Message, Outcome string }
		}
	}
	if a.Outcome == history.Executed {
		if err := json.Unmarshal(a.Body, &res); err != nil || len(res.Results) != len(items) {
			c.problem("an answer that is not one to a batch: %.200q", a.Body)
			a.Outcome = history.Unknown
		}
	}
	for i := range ops {
		ops[i].Return, ops[i].Outcome = a.At, a.Outcome
		if a.Outcome != history.Executed {
			continue
		}
		if e := res.Results[i].Error; e != nil {
			c.count("batch item " + e.Code)
			ops[i].Outcome = c.refused(e.Outcome, e.Code, e.Message)
		} else if err := json.Unmarshal(res.Results[i].Payload, &ops[i].Reply); err != nil {
			c.problem("a result that is not the reply of a list: %.200q", res.Results[i].Payload)
			ops[i].Outcome = history.Unknown
		}
	}
	c.record(ops...)
}

// Final reads all values of a list.
func (l *Load) Final(ctx context.Context, list string) ([]int64, error) {
	c := call{Load: l, kind: history.Get}
	a := c.repeat(ctx, 0, "/v1/List/"+list+"/All", "", struct{}{})
	if a.Outcome != history.Executed {
		return nil, fmt.Errorf("%s cannot be read at the end: %.500s", list, a.Body)
	}
	var all struct{ Values []int64 }
	if err := json.Unmarshal(a.Body, &all); err != nil {
		return nil, fmt.Errorf("%s cannot be read at the end: %w", list, err)
	}
	return all.Values, nil
}
