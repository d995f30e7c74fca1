package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show running versions and remaining moves", Args: cobra.NoArgs,
		Long: `Shows the versions of the regions' code (app.version), their regions and shards,
which version is the target of a rollout, the forms that regions of one version
store and regions of another do not read, and shards that no region can be given.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Rollout(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printRollout(res, time.Now())
		},
	}
}

func (a *group) printRollout(res *adminv1.RolloutResponse, now time.Time) error {
	var rows [][]any
	for _, v := range res.Versions {
		target := ""
		if v.Target {
			target = "target"
		}
		rows = append(rows, []any{phrase.OrDash(v.Version), phrase.OrDash(target), v.Shards, v.Moving, strings.Join(v.Regions, ",")})
	}
	if err := a.PrintTable([]string{"VERSION", "ROLLOUT", "SHARDS", "MOVING", "REGIONS"}, rows, "SHARDS", "MOVING"); err != nil {
		return err
	}
	var lines []string
	for _, c := range res.CannotRead {
		if c.Reader == c.Writer {
			lines = append(lines, fmt.Sprintf("regions of %s run different code: not all of them read %s %s; give every build a version of its own (app.version)", phrase.OrDash(c.Reader), c.Type, strings.Join(c.Forms, "; ")))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s does not read what %s stores: %s %s", phrase.OrDash(c.Reader), phrase.OrDash(c.Writer), c.Type, strings.Join(c.Forms, "; ")))
	}
	for _, u := range res.Unreadable {
		lines = append(lines, phrase.Unreadable(u))
	}
	left := phrase.Plural(int(res.Left), "shard") + " left to move when their regions leave"
	if res.Unread > 0 {
		left = fmt.Sprintf("%s, and %d that no region of %s reads", phrase.Plural(int(res.Left-min(res.Left, res.Unread)), "shard")+" left to move when their regions leave", res.Unread, res.Target)
	}
	frozen := time.Duration(res.FrozenMs) * time.Millisecond
	switch {
	case res.Target == "":
		lines = append(lines, "no region has said its version: set app.version, or stamp it on the binary")
	case !res.On && len(res.Versions) == 1 && res.Versions[0].Target:
		lines = append(lines, "no rollout is on: all regions run "+res.Target)
	case len(res.Versions) == 0:
		lines = append(lines, "no region is registered with the coordinator (yet); the target is "+res.Target)
	case !res.On && res.NextTarget != "":
		lines = append(lines, fmt.Sprintf("no rollout is on: no region runs the target %s; %s becomes the target at %s if none comes, or now with roost rollout target %s",
			res.Target, res.NextTarget, now.Add(time.Duration(res.NextTargetMs)*time.Millisecond).Format(time.TimeOnly), res.NextTarget))
	case !res.On:
		lines = append(lines, fmt.Sprintf("no rollout is on: no region runs the target %s; roost rollout target sets another", res.Target))
	case frozen > 0:
		lines = append(lines, fmt.Sprintf("%s; nothing moves for balance until %s if no region comes or goes",
			left, now.Add(frozen).Format(time.TimeOnly)))
	default:
		still := fmt.Sprintf("the rollout stands still: %s are not with %s, and shards are balanced over all versions", phrase.Plural(int(res.Left), "shard"), res.Target)
		if res.Unread > 0 {
			still += fmt.Sprintf(". No region of %s reads %d of them", res.Target, res.Unread)
		}
		lines = append(lines, still)
	}
	return a.PrintLines(lines)
}
