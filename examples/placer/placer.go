// Package placer is a program that places the shards of an entity type: at the regions with a certain
// label, in equal parts. Coordinators follow it if the type's strategy is external:
//
//	coordinator --allocation.types=Counter=external
//	region --region.labels=disk=ssd
//	placer --type Counter --label disk=ssd --coordinators http://localhost:8558
//
// # What this does not do
//
// If no region with the label can be given shards, for example because the label is misspelt, it changes
// nothing. It decides about no single shard at once: between two rounds of it, shards that have lost their
// region go where there are the fewest.
package placer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Place pins the shards of a type to the regions with a label.
func Place(ctx context.Context, c *adminclient.Client, typ, label, value string) (adminclient.Assigned, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return adminclient.Assigned{}, err
	}
	var regions []string
	for _, m := range members.Members {
		if m.Labels[label] == value && m.Status == "up" && m.Reachable && !m.Draining && !m.Cordoned {
			regions = append(regions, m.Name)
		}
	}
	if len(regions) == 0 {
		return adminclient.Assigned{}, noRegion(members, label, value)
	}
	table, err := c.Shards(ctx, typ, "")
	if err != nil {
		return adminclient.Assigned{}, err
	}
	now := make([]string, table.Types[0].Shards)
	for _, s := range table.Shards {
		now[s.Index] = s.Region
	}
	return c.Assign(ctx, adminclient.Assignment{
		Type: typ, Regions: spread(now, regions), By: "placer", Reason: label + "=" + value,
	})
}

// noRegion returns an error with the reason why no region can be given shards, and with the labels that
// there are.
func noRegion(members *adminv1.MembersResponse, label, value string) error {
	labels := map[string]bool{}
	for _, m := range members.Members {
		for name, value := range m.Labels {
			labels[name+"="+value] = true
		}
	}
	there := "there are none"
	if len(labels) > 0 {
		there = "the labels of regions are " + strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
	}
	return fmt.Errorf("no region with the label %s=%s can be given shards, so nothing is changed; %s; it must be up, and neither drained nor cordoned", label, value, there)
}

// spread gives each region an equal part of the shards. now has the present region of each shard; the shard
// stays there if it can. There must be a region.
func spread(now, regions []string) map[uint32]string {
	most := (len(now) + len(regions) - 1) / len(regions)
	wanted, has := map[uint32]string{}, map[string]int{}
	for shard, region := range now {
		if slices.Contains(regions, region) && has[region] < most {
			wanted[uint32(shard)] = region
			has[region]++
		}
	}
	for shard := range now {
		if wanted[uint32(shard)] != "" {
			continue
		}
		fewest := slices.MinFunc(regions, func(a, b string) int { return has[a] - has[b] })
		wanted[uint32(shard)] = fewest
		has[fewest]++
	}
	return wanted
}
