package entity_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

type sized struct{ bytes []byte }

func (s *sized) Size() int { return len(s.bytes) }

func (s *sized) Grow(*entity.Ctx, int) (int, error) {
	s.bytes = append(s.bytes, 1, 2, 3)
	return len(s.bytes), nil
}

// TestSize: the size of an entity goes to the core with every turn.
func TestSize(t *testing.T) {
	typ := entity.Define("Sized", func(string) *sized { return &sized{} }, entity.On(entity.Command[int, int]("Sized", "Grow"), (*sized).Grow), entity.With[sized](entity.Volatile()))
	i, err := instance.New(typ, "x")
	if err != nil {
		t.Fatal(err)
	}
	for turns := 1; turns < 3; turns++ {
		env := sharding.Envelope{Entity: sharding.Entity{Type: "Sized", ID: "x"}, Command: "Grow", Payload: []byte("1")}
		done, err := i.Run(t.Context(), time.Now(), &turn.Run{Env: &env}, nil)
		if err != nil || done.Size != 3*turns || i.Size() != 3*turns {
			t.Errorf("after %d turns: %+v, %v", turns, done, err)
		}
	}
}
