package server

import (
	"fmt"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

func toBrake(b coordinator.BrakeView) *adminv1.Brake {
	if b.Since.IsZero() {
		return nil
	}
	return &adminv1.Brake{
		State: b.State.String(), Part: uint32(b.Part), SinceUnixMs: unixMs(b.Since), NextUnixMs: unixMs(b.Next), Probes: uint32(b.Trials),
		SlowUs: b.Slow.Microseconds(), UsualUs: b.Usual.Microseconds(), P99Us: b.P99.Microseconds(), BaselineUs: b.Baseline.Microseconds(), Why: b.Why(),
	}
}

func toGateway(g coordinator.GatewayView) *adminv1.Gateway {
	return &adminv1.Gateway{
		Addr: g.Node.Addr, Uid: fmt.Sprintf("%x", uint64(g.Node.UID)), Management: g.Management, Commands: g.Commands, Refused: g.Refused,
		P50Us: g.P50.Microseconds(), P99Us: g.P99.Microseconds(), HeardUnixMs: unixMs(g.HeardAt),
	}
}

// brakeLog says for the log what the brake does now.
func brakeLog(o coordinator.BrakeChanged) string {
	if why := coordinator.BrakeView(o).Why(); why != "" {
		return why
	}
	return "voluntary moves have the whole budget again"
}
