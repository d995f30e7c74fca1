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

// Receiver handles the messages of all kinds in a driver. Its errors are Twirp's. size is the
// length of the request on the wire.
type Receiver interface {
	// Receive takes one-way messages, all or none. Messages of an unknown kind are left out.
	Receive(ctx context.Context, from sharding.NodeID, msgs []control.Message, size int) error
	// Answer waits for the answer to a call, as long as ctx allows.
	Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error)
}

// Known returns the identity of a node, as the membership has it; a zero Identity: it is not a
// member.
type Known func(sharding.NodeID) control.Identity

// Handler serves the messages to one process. A message in the name of a member is taken only from this member, as
// far as certificates say who has sent it. known is nil if there is no membership.
func Handler(cluster string, self sharding.NodeID, role control.Role, known Known, r Receiver, log *slog.Logger) http.Handler {
	tables := newTables()
	if known == nil {
		known = func(sharding.NodeID) control.Identity { return control.Identity{} }
	}
	return tables.bound(controlv1.NewControlServer(&service{cluster: cluster, self: self, role: role, known: known, receiver: r, log: log, tables: tables}))
}

type service struct {
	cluster  string
	self     sharding.NodeID
	role     control.Role
	known    Known
	receiver Receiver
	log      *slog.Logger
	unknown  telemetry.Repeated
	posing   telemetry.Repeated // senders with the certificate of another process
	tables   *tables
}

// check refuses what is meant for another cluster or incarnation. The refusal names the role of
// this process.
func (s *service) check(cluster string, to uint64) error {
	if cluster != s.cluster {
		return twirp.NewErrorf(twirp.FailedPrecondition, "this is cluster %q, not %q; see cluster.name", s.cluster, cluster).
			WithMeta("role", s.role.String())
	}
	if to != 0 && sharding.NodeUID(to) != s.self.UID {
		return twirp.NewErrorf(twirp.FailedPrecondition, "another incarnation of this process was meant: %x, this is %x", to, uint64(s.self.UID))
	}
	return nil
}

func invalid(err error) error { return twirp.NewError(twirp.InvalidArgument, err.Error()) }

// checkSender refuses a message that the process in the sender's certificate does not send.
func (s *service) checkSender(ctx context.Context, from *controlv1.Node, m control.Message) error {
	err := control.CheckSender(PeerOf(ctx), s.known(wire.FromNode(from)), m)
	if err == nil {
		return nil
	}
	s.posing.Warn(s.log, "a message is refused, because the certificate of its sender is for another process", "from", from.GetAddr(), "reason", err)
	return twirp.NewError(twirp.PermissionDenied, err.Error())
}

// Send takes one-way messages.
func (s *service) Send(ctx context.Context, req *controlv1.SendRequest) (*controlv1.SendResponse, error) {
	if err := s.check(req.Cluster, req.To); err != nil {
		return nil, err
	}
	msgs, unknown := wire.DecodeAll(req.Messages)
	if unknown > 0 {
		s.unknown.Warn(s.log, "messages of a kind that this version does not know are ignored; give both processes the same version", "from", req.From.GetAddr())
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
		return nil, twirp.NewError(twirp.InvalidArgument, "messages to a region must name the incarnation that is meant")
	}
	if err := s.receiver.Receive(ctx, wire.FromNode(req.From), msgs, proto.Size(req)); err != nil {
		return nil, err
	}
	return &controlv1.SendResponse{}, nil
}

// Call takes a call and waits for its answer.
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
	if err := s.tables.await(ctx, encoded); err != nil {
		return nil, err
	}
	return &controlv1.CallResponse{Message: encoded}, nil
}
