package server

import (
	"math"

	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// The messages of this service alone; those that services share are in
// package wire.

// fromEncoding reads an encoding. One that is not known stays unknown, and is refused
// with the names.
func fromEncoding(e gatewayv1.Encoding) sharding.Encoding {
	switch e {
	case gatewayv1.Encoding_ENCODING_JSON:
		return sharding.JSON
	case gatewayv1.Encoding_ENCODING_PROTOBUF:
		return sharding.Protobuf
	}
	return unknownEncoding
}

const unknownEncoding sharding.Encoding = math.MaxUint8

func toEncoding(e sharding.Encoding) gatewayv1.Encoding {
	if e == sharding.Protobuf {
		return gatewayv1.Encoding_ENCODING_PROTOBUF
	}
	return gatewayv1.Encoding_ENCODING_JSON
}

// fromAsk is a request of the Twirp API without id and deadline.
func fromAsk(r *gatewayv1.AskRequest) sharding.Envelope {
	return sharding.Envelope{
		Entity:  sharding.Entity{Type: sharding.EntityType(r.GetType()), ID: sharding.EntityID(r.GetId())},
		Command: r.GetCommand(), ID: sharding.CommandID(r.GetIdempotencyKey()), Keyed: r.GetIdempotencyKey() != "",
		Encoding: fromEncoding(r.GetEncoding()), Payload: r.GetPayload(),
	}
}
