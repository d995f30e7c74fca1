//go:build linux

package server

import (
	"testing"

	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

func TestWhyOnPostgreSQL(t *testing.T) {
	noneLeft(t)
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	checkWhy(t, server.URL(postgrestest.Superuser, name))
}
