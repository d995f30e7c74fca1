package instance

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/libs/sharding"
)

type explainedInner struct {
	*ExplainedEdge
	Amount int8 `json:"amount"`
	List   []uint16
}

type ExplainedEdge struct{ Odd bool }

type explainedBase struct{ Base bool }

type explained struct {
	explainedBase
	Deep   []*explainedInner
	Inner  explainedInner `json:"inner"`
	Name   string
	Rate   float64
	Map    map[string]explainedInner
	Raw    []byte
	At     time.Time
	From   netip.Addr
	Quoted int64 `json:",string"`
	Any    interface{ Face() }
}

// TestExplain: errors about input that cannot be decoded are in the sender's terms.
func TestExplain(t *testing.T) {
	for payload, want := range map[string]string{
		`{"inner":{"amount":"x"}}`: `field "inner.amount" is a string; it must be a whole number from -128 to 127`,
		`{"inner":{"amount":300}}`: `field "inner.amount" is 300; it must be a whole number from -128 to 127`,
		`{"inner":{"amount":1.5}}`: `field "inner.amount" is 1.5; it must be a whole number from -128 to 127, written without point or exponent`,
		`{"inner":{"amount":1.0}}`: `field "inner.amount" is 1.0; it must be a whole number from -128 to 127, written without point or exponent`,
		`{"inner":{"amount":1e1}}`: `field "inner.amount" is 1e1; it must be a whole number from -128 to 127, written without point or exponent`,
		`{"inner":{"List":[-1]}}`:  `field "inner.List" is -1; it must be a whole number from 0 to 65535`,
		`{"inner":{"List":{}}}`:    `field "inner.List" is an object; it must be an array`,
		`{"inner":[]}`:             `field "inner" is an array; it must be an object`,
		`{"Map":{"k":true}}`:       `field "Map" is a boolean; it must be an object`,
		`{"Base":1}`:               `field "Base" is a number; it must be true or false`,
		`{"Deep":[{"Odd":1}]}`:     `field "Deep.Odd" is a number; it must be true or false`,
		`{"Name":5}`:               `field "Name" is a number; it must be a string`,
		`{"Rate":"1"}`:             `field "Rate" is a string; it must be a number`,
		`{"Raw":5}`:                `field "Raw" is a number; it must be a string in base64`,
		`{"Raw":"?"}`:              `illegal base64 data at input byte 0`,
		`{"From":5}`:               `field "From" is a number; it must be a string`,
		`{"Quoted":"x"}`:           `a field holds a number or boolean in quotes, and another value is sent for it`,
		`{"Any":{}}`:               `field "Any" is an object; it must be something else`,
		`[]`:                       `the value is an array; it must be an object`,
		`{"nome":"x"}`:             `there is no field "nome"; check its spelling or leave it out`,
		`{"inner":{"amont":1}}`:    `there is no field "amont"; check its spelling or leave it out`,
		`{nome:1}`:                 `it is not valid JSON: invalid character 'n' looking for beginning of object key string, at byte 2`,
		`{"Name":`:                 `it is not valid JSON: it ends too early`,
		` `:                        `it is empty; send a JSON value`,
		"{\"Name\":\"\xff\"}":      `it is not valid JSON: it is not in UTF-8`,
		`{} {}`:                    `it is not valid JSON: there is more after the value`,
	} {
		_, err := decode[explained]([]byte(payload), sharding.JSON, layoutOf(reflect.TypeFor[explained]()))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", payload, err, want)
		}
	}
	messages := map[string]error{
		"it is protobuf, which this type has no message for; send application/json": second(decode[explained]([]byte{1}, sharding.Protobuf, layoutOf(reflect.TypeFor[explained]()))),
		`the value is a string; it must be a whole number`:                          second(DecodeReply[int]([]byte(`"x"`), sharding.JSON)),
		"invalid google.protobuf.Duration value":                                    second(decode[*durationpb.Duration]([]byte(`"x"`), sharding.JSON, layoutOf(reflect.TypeFor[*durationpb.Duration]()))),
		"cannot parse invalid wire-format data":                                     second(decode[*wrapperspb.StringValue]([]byte{1}, sharding.Protobuf, layoutOf(reflect.TypeFor[*wrapperspb.StringValue]()))),
	}
	for want, err := range messages {
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(err.Error(), "proto") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
