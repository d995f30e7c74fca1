package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

func (a *group) callCommand() *cobra.Command {
	var key string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "call TYPE/ID COMMAND [JSON]", Short: "Send a command to an entity",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return fmt.Errorf("an entity such as Airport/PHX, a command and at most one input are needed, %d arguments are given", len(args))
			}
			return nil
		},
		Long: `Sends a command to an entity through a gateway and prints its reply. JSON is
the input of the command; - reads it from standard input. The command is sent
again until it is answered or --timeout is over, under one idempotency key.`,
		Example: `  roost call Counter/c1 Add '{"delta":5}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, id, err := app.EntityOf(args[:1], "TYPE/ID, such as Airport/PHX")
			if err != nil {
				return err
			}
			if err := sharding.CheckType("the command", args[1]); err != nil {
				return app.Usage(err)
			}
			call := entity.Call{Type: string(typ), ID: string(id), Command: args[1], Key: key}
			if len(args) == 3 {
				if call.Payload, err = payload(args[2]); err != nil {
					return err
				}
			}
			switch {
			case timeout <= 0:
				return app.Usage(fmt.Errorf("--timeout is %s; it must be above 0", timeout))
			case key == "" && cmd.Flags().Changed("idempotency-key"):
				return app.Usage(errors.New("--idempotency-key is empty; give a key, or leave the flag out for a new one"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			err = a.call(ctx, call)
			var failed *entity.Error
			if errors.As(err, &failed) && failed.Code == entity.DeadlineExceeded && failed.Outcome != entity.Executed { // else the entity says so
				return app.TimedOut(fmt.Errorf("timed out after %s, see --timeout: %w", timeout, err))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the command takes effect at most once per key; default: a new one")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to try")
	return cmd
}

// payload returns the input of a command: the argument, or standard input.
func payload(arg string) ([]byte, error) {
	content := []byte(arg)
	if arg == "-" {
		var err error
		if content, err = io.ReadAll(os.Stdin); err != nil {
			return nil, err
		}
	}
	if !json.Valid(content) {
		return nil, app.Usage(errors.New(`the input is not JSON; write it like '{"delta":5}'`))
	}
	return content, nil
}

func (a *group) call(ctx context.Context, call entity.Call) error {
	gateways, err := a.URLs(a.Gateway, "gateway", (*cluster.State).Gateways)
	if err != nil {
		return err
	}
	token, err := a.Token()
	if err != nil {
		return err
	}
	var reach adminclient.Options
	if reach.TLS, err = a.ClientTLS(); err != nil {
		return err
	}
	c, err := client.New(gateways, client.Token(token), client.TLS(reach.TLS))
	if err != nil {
		return err
	}
	reply, err := c.Call(ctx, call)
	var failed *entity.Error
	if errors.As(err, &failed) && failed.Code == entity.Internal {
		if stranger := adminclient.CheckGateways(context.WithoutCancel(ctx), reach, gateways); stranger != nil {
			return stranger
		}
	}
	refused := errors.As(err, &failed) && failed.Code == entity.Unavailable && adminclient.AnyGateway(context.WithoutCancel(ctx), reach, gateways)
	if errors.As(err, &failed) && failed.Outcome == entity.NotApplied {
		err = fmt.Errorf("%w (it was not applied)", err)
	}
	if refused {
		return app.Refused(err)
	}
	if err != nil {
		return err
	}
	if reply.Protobuf || !json.Valid(reply.Payload) {
		_, err = a.Out.Write(reply.Payload)
		return err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, reply.Payload); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", text.Bytes())
	return err
}
