package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/gossip"
)

func TestJoiningSettings(t *testing.T) {
	j := DefaultJoining()
	j.Zone, j.MinMembers, j.MinOfRole = "eu-1", 5, map[string]string{"region": "3", "coordinator": "2"}
	if err := j.Validate(); err != nil {
		t.Fatal(err)
	}
	c := gossip.DefaultConfig()
	j.Apply(&c)
	want := []gossip.RoleMinimum{{Role: "coordinator", Members: 2}, {Role: "region", Members: 3}}
	if c.Zone != "eu-1" || c.MinMembers != 5 || !slices.Equal(c.MinOfRole, want) {
		t.Errorf("the core gets zone %q, %d members, %v", c.Zone, c.MinMembers, c.MinOfRole)
	}
	for value, bad := range map[string]bool{"1": false, "0": true, "-1": true, "": true, "many": true} {
		j.MinOfRole = map[string]string{"region": value}
		if err := j.Validate(); (err != nil) != bad || bad && !strings.Contains(err.Error(), "gossip.min_of_role is region="+value) {
			t.Errorf("region=%s gives %v", value, err)
		}
	}
	j.MinOfRole, j.MinMembers, j.GiveUp = nil, 0, -1
	if err := j.Validate(); err == nil || !strings.Contains(err.Error(), "gossip.min_members") || !strings.Contains(err.Error(), "gossip.join_give_up") {
		t.Errorf("no members and a negative time give %v", err)
	}
}
