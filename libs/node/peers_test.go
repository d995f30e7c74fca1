package node

import (
	"strings"
	"testing"
)

// A gateway on another host that listens for questions on loopback is not asked: this host's own loopback would answer.
func TestGatewayOutOfReach(t *testing.T) {
	for _, test := range []struct {
		self, gateway, peers, management string
		out                              bool
	}{
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "127.0.0.1:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "localhost:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "[::1]:9000", "10.0.0.2:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "10.0.0.2:9000", "127.0.0.1:8558", false},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "10.0.0.2:8558", false},
		{"10.0.0.1:25521", "10.0.0.1:8080", "", "127.0.0.1:8558", false}, // on the same host
		{"127.0.0.1:25521", "127.0.0.1:8080", "", "127.0.0.1:8558", false},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "", false}, // it is asked, and the answer says what is wrong
	} {
		err := GatewayOutOfReach(test.self, test.gateway, test.peers, test.management)
		if (err != nil) != test.out || err != nil && !strings.Contains(err.Error(), "which only its own host reaches") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
