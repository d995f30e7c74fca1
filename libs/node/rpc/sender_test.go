package rpc

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestInTheNameOfAMember: the membership's entry for the sender's node is compared with the message.
func TestInTheNameOfAMember(t *testing.T) {
	peer := &script{answer: control.NotActive{}}
	active := sharding.NodeID{Addr: "c:1", UID: 7}
	known := func(n sharding.NodeID) control.Identity {
		if n == active {
			return control.Identity{Roles: control.Coordinator, Node: "coordinator-1"}
		}
		return control.Identity{}
	}
	srv := httptest.NewServer(Handler("dev", sharding.NodeID{UID: 9}, control.Coordinator, known, peer, silent))
	defer srv.Close()
	to := strings.TrimPrefix(srv.URL, "http://")
	for from, fine := range map[sharding.NodeID]bool{active: false, {Addr: "r:1", UID: 8}: true} {
		peer.got = nil
		c := Client{Cluster: "dev", Self: from, Reach: Via(srv.Client(), nil), Timeout: time.Minute}
		_, err := c.Call(t.Context(), to, control.Register{Name: "region-1"})
		if (err == nil) != fine || (len(peer.got) == 1) != fine {
			t.Errorf("a call from %v arrives as %v: %v", from, peer.got, err)
		}
		peer.got = nil
		err = c.Send(t.Context(), sharding.NodeID{Addr: to}, []control.Message{control.ShardStopped{}})
		if (err == nil) != fine || (len(peer.got) == 1) != fine || err != nil && !strings.Contains(err.Error(), "permission_denied") {
			t.Errorf("a message from %v arrives as %v: %v", from, peer.got, err)
		}
	}
}
