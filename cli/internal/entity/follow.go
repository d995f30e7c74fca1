package entity

import (
	"context"
	"fmt"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// followEntities is the most entities that roost entity explain follows: a chain of asks is shorter, and an entity whose
// sends to many others fail usually has one cause. followSends is the most failing sends of each of them.
const followEntities, followSends = 8, 3

// explains answers what keeps a command for an entity from being executed.
type explains interface {
	Explain(context.Context, *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error)
}

// listsSends lists the sends of an entity.
type listsSends interface {
	Sends(context.Context, *adminv1.SendsRequest) (*adminv1.SendsResponse, error)
}

// followExplain adds to an explanation the explanations of the entities that the entity waits for, and of the
// entities that these wait for.
func (a *group) followExplain(ctx context.Context, client explains, res *diagnosisv1.ExplainResponse) {
	var sends listsSends
	if admin, err := a.AdminClient(); err == nil {
		sends = admin
	}
	follow(ctx, client, sends, res)
}

func follow(ctx context.Context, client explains, sends listsSends, res *diagnosisv1.ExplainResponse) {
	type name struct{ typ, id string }
	seen := map[name]bool{{res.Type, res.Id}: true}
	for queue := []*diagnosisv1.ExplainResponse{res}; len(queue) > 0; queue = queue[1:] {
		for _, w := range waitsFor(ctx, sends, queue[0]) {
			if seen[name{w.typ, w.id}] || len(res.Followed) >= followEntities {
				continue
			}
			seen[name{w.typ, w.id}] = true
			f := &diagnosisv1.Followed{Because: w.because}
			if explained, err := client.Explain(ctx, &diagnosisv1.ExplainRequest{Type: w.typ, Id: w.id}); err != nil {
				f.Error = app.Message(err)
			} else {
				f.Explained = explained
				queue = append(queue, explained)
			}
			res.Followed = append(res.Followed, f)
		}
	}
}

// awaited is an entity that another one waits for.
type awaited struct{ typ, id, because string }

// waitsFor returns the entities that an entity waits for. Its sends are known only while a coordinator is active;
// without one, waitsFor still returns the rest.
func waitsFor(ctx context.Context, sends listsSends, of *diagnosisv1.ExplainResponse) (list []awaited) {
	who := phrase.Named(of.Type + "/" + of.Id)
	for _, f := range of.Findings {
		if f.FollowType != "" {
			list = append(list, awaited{f.FollowType, f.FollowId, fmt.Sprintf("%s waits for the answer of %s", who, phrase.Named(f.FollowType+"/"+f.FollowId))})
		}
	}
	if sends == nil {
		return list
	}
	res, err := sends.Sends(ctx, &adminv1.SendsRequest{Type: of.Type, Id: of.Id, Failing: true, Limit: followSends})
	if err != nil {
		return list
	}
	for _, s := range res.Sends {
		if f := s.Failure; f != nil && !s.Answer {
			because := fmt.Sprintf("%s sends %s to %s, which has failed %d times: %s: %s", who, s.Command, phrase.Named(s.TargetType+"/"+s.TargetId), f.Times, f.Code, f.Message)
			list = append(list, awaited{s.TargetType, s.TargetId, because})
		}
	}
	return list
}
