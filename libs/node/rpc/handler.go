package rpc

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// PathPrefix is the path of the [Handler].
const PathPrefix = controlv1.ControlPathPrefix

// Receiver handles the decoded messages in a driver. It returns Twirp errors. size is the
// length of the request on the wire.
type Receiver interface {
	// Receive accepts one-way messages, all or none. Messages of an unknown kind are left out.
	Receive(ctx context.Context, from sharding.NodeID, msgs []control.Message, size int) error
	// Answer returns the answer to a call. It waits for the answer until ctx ends.
	Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error)
}

// IdentityOf returns the identity of a member of the cluster. It returns a zero Identity for a node that
// is not a member.
type IdentityOf func(sharding.NodeID) control.Identity

// Handler serves the messages to one process. With certificates, it accepts a message in the name of a member only
// from that member. identityOf is nil if there is no membership.
func Handler(cluster string, self sharding.NodeID, role control.Role, identityOf IdentityOf, r Receiver, log *slog.Logger) http.Handler {
	tables := newTables()
	if identityOf == nil {
		identityOf = func(sharding.NodeID) control.Identity { return control.Identity{} }
	}
	return tables.limitLargeAnswers(controlv1.NewControlServer(&service{cluster: cluster, self: self, role: role, identityOf: identityOf, receiver: r, log: log, tables: tables}))
}

type service struct {
	cluster     string
	self        sharding.NodeID
	role        control.Role
	identityOf  IdentityOf
	receiver    Receiver
	log         *slog.Logger
	unknown     telemetry.Repeated // messages of an unknown kind
	wrongSender telemetry.Repeated // messages that the certified sender is not allowed to send
	tables      *tables
}

// check rejects requests for another cluster or incarnation. The error contains the role of this
// process.
func (s *service) check(cluster string, to uint64) error {
	if cluster != s.cluster {
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", s.cluster, cluster).
			WithMeta("role", s.role.String())
	}
	if to != 0 && sharding.NodeUID(to) != s.self.UID {
		return twirp.NewErrorf(twirp.FailedPrecondition, "the request is for incarnation %x of this process, this is %x", to, uint64(s.self.UID))
	}
	return nil
}

func invalid(err error) error { return twirp.NewError(twirp.InvalidArgument, err.Error()) }

// checkSender rejects a message that the certified sender is not allowed to send.
func (s *service) checkSender(ctx context.Context, from *controlv1.Node, m control.Message) error {
	err := control.CheckSender(PeerOf(ctx), s.identityOf(wire.FromNode(from)), m)
	if err == nil {
		return nil
	}
	s.wrongSender.Warn(s.log, "message rejected: certificate of another process", "hint", "a process uses another's certificate, or forges messages", "from", from.GetAddr(), "reason", err)
	return twirp.NewError(twirp.PermissionDenied, err.Error())
}

// Send implements the RPC for one-way messages.
func (s *service) Send(ctx context.Context, req *controlv1.SendRequest) (*controlv1.SendResponse, error) {
	if err := s.check(req.Cluster, req.To); err != nil {
		return nil, err
	}
	msgs, unknown := wire.DecodeAll(req.Messages)
	if unknown > 0 {
		s.unknown.Warn(s.log, "ignoring messages of an unknown kind", "hint", "run the same version in both processes", "from", req.From.GetAddr())
	}
	for _, m := range msgs {
		if err := control.CheckOneWay(s.role, m); err != nil {
			return nil, invalid(err)
		}
		if err := s.checkSender(ctx, req.From, m); err != nil {
			return nil, err
		}
	}
	if s.role == control.Region && req.To == 0 { // a late order must not reach the next incarnation
		return nil, twirp.NewError(twirp.InvalidArgument, "messages to a region must name its incarnation")
	}
	if err := s.receiver.Receive(ctx, wire.FromNode(req.From), msgs, proto.Size(req)); err != nil {
		return nil, err
	}
	return &controlv1.SendResponse{}, nil
}

// Call implements the RPC for a call, which returns its answer.
func (s *service) Call(ctx context.Context, req *controlv1.CallRequest) (*controlv1.CallResponse, error) {
	if err := s.check(req.Cluster, req.To); err != nil {
		return nil, err
	}
	m, err := wire.Decode(req.Message)
	if err == nil {
		err = control.CheckCall(s.role, m)
	}
	if err != nil {
		return nil, invalid(err)
	}
	if err := s.checkSender(ctx, req.From, m); err != nil {
		return nil, err
	}
	answer, err := s.receiver.Answer(ctx, wire.FromNode(req.From), m, proto.Size(req))
	if err != nil {
		return nil, err
	}
	table, is := answer.(control.TableChanged)
	if !is {
		return &controlv1.CallResponse{Message: wire.Encode(answer)}, nil
	}
	encoded := s.tables.encode(table)
	if err := s.tables.waitForSlot(ctx, encoded); err != nil {
		return nil, err
	}
	return &controlv1.CallResponse{Message: encoded}, nil
}
