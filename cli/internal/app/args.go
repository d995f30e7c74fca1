package app

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
)

// OneName accepts exactly one argument, a name.
func OneName(_ *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return fmt.Errorf("one name is needed, %d are given", len(args))
	case strings.TrimSpace(args[0]) == "":
		return errors.New("the name is empty")
	}
	return nil
}

// OneFile accepts exactly one argument, a file.
func OneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("one FILE is needed, %d are given", len(args))
	}
	return nil
}

// EntityOf parses TYPE ID or TYPE/ID; want describes the accepted forms for errors.
func EntityOf(args []string, want string) (typ, id string, err error) {
	ok := true
	if len(args) == 2 {
		typ, id = args[0], args[1]
	} else {
		typ, id, ok = strings.Cut(args[0], "/")
	}
	if !ok || typ == "" || id == "" {
		return "", "", usageError{fmt.Errorf("%q is not the name of an entity: write %s", strings.Join(args, " "), want)}
	}
	if err := (sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}).Check(); err != nil {
		return "", "", usageError{err}
	}
	return typ, id, nil
}

// ShardOf parses TYPE/SHARD.
func ShardOf(text string) (typ string, index uint32, err error) {
	typ, number, ok := strings.Cut(text, "/")
	n, bad := strconv.ParseUint(number, 10, 32)
	if !ok || bad != nil || sharding.CheckEntityType("type", sharding.EntityType(typ)) != nil {
		return "", 0, usageError{fmt.Errorf("%q is not a shard: write TYPE/SHARD, such as Airport/17; roost shard show finds the shard of an entity", text)}
	}
	return typ, uint32(n), nil
}

// WhoAmI names the user and the host for the coordinator's log, as far as known and fit for it.
func WhoAmI() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	if sharding.CheckText("by", name, sharding.MaxTypeLen) != nil {
		return "?"
	}
	return name
}

// QueryTimeout is the flag for how long regions may take to answer.
type QueryTimeout time.Duration

// Flag adds the flag --query-timeout.
func (q *QueryTimeout) Flag(cmd *cobra.Command) {
	cmd.Flags().DurationVar((*time.Duration)(q), "query-timeout", 0, "how long regions may take to answer, at most 30s; default: coordinator.query_timeout")
}

// Milliseconds checks the flag, and returns its value for a request.
func (q *QueryTimeout) Milliseconds() (int64, error) {
	d := time.Duration(*q)
	if d != 0 && (d < time.Millisecond || d > 30*time.Second) {
		return 0, usageError{fmt.Errorf("--query-timeout is %s; it must be 1ms to 30s", d)}
	}
	return d.Milliseconds(), nil
}
