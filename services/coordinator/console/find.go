package console

import (
	"cmp"
	"context"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/operate"
)

// Find looks up where the entity of an operator's command is.
func (a *API) Find(ctx context.Context, env *sharding.Envelope, o operate.Find) operate.Input {
	in := operate.Found{}
	err := a.cfg.LookActive(ctx, func(core Core) error {
		v := core.View()
		desc, err := typeOf(&v, env.Entity.Type)
		if err != nil {
			return err
		}
		for _, t := range v.Types {
			in.Types = append(in.Types, t.Type)
		}
		in.Row = sharding.Row{Shard: desc.ShardOf(env.Entity.ID)}
		if j := slices.IndexFunc(v.Rows, func(r sharding.Row) bool { return r.Shard == in.Row.Shard }); j >= 0 {
			in.Row = v.Rows[j]
		}
		in.Region = cmp.Or(names(&v)[in.Row.Owner], in.Row.Owner.Addr)
		return nil
	})
	if err != nil {
		return operate.NotFound{Err: err}
	}
	if o.Target {
		in.Target = a.target(ctx, in.Row.Shard, env)
	}
	return in
}

// target looks up the target of the dead letter that a command would send again.
func (a *API) target(ctx context.Context, shard sharding.ShardID, env *sharding.Envelope) (none sharding.Entity) {
	var in sharding.DeadLetterInput
	if env.Command != sharding.SendAgainCommand || sharding.ReadBuiltin(env.Payload, &in) != nil || in.Record == 0 {
		return none
	}
	page, err := a.cfg.Journal().Sends(ctx, journal.SendRequest(shard, env.Entity, in.Record, true))
	if err != nil {
		return none
	}
	state, x, err := journal.FindSend(page.Entries, env.Entity, in.Record, int(in.Place))
	if err != nil || !state.Dead() {
		return none
	}
	return x.To
}
