package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/authority"
	"github.com/roost-cluster/roost/cli/internal/app"
)

const certHelp = `Makes a certificate authority, and certificates for the processes of a cluster. Each
certificate names the role of its process, so that a gateway's cannot be used as a region's
(docs/running/security.md). Use it where there is no authority of your company.`

const certNewHelp = `Makes a certificate and its private key: NAME.pem and NAME.key in --out. Existing files are
replaced; the process reloads them automatically.

NAME is node.name of the process. With --shared, the certificate is for all processes of the
role, for example the pods of a deployment, and NAME only names the files. Then Roost cannot tell
these processes apart by their certificates.

Peers take each other by cluster, role and node, wherever they run, and need no --host. Give --host
for other clients, for example clients of a gateway without public.cert, and while processes of an earlier
release run. It is a host name or an address at which the process is reached, and can be repeated.`

// certOptions are the flags of roost auth cert.
type certOptions struct {
	authority, cluster, role, out string
	hosts                         []string
	shared                        bool
	valid, authorityValid         time.Duration
}

func (a *group) certCommand() *cobra.Command {
	var o certOptions
	cmd := &cobra.Command{
		Use: "cert", Short: "Make certificates for processes", Long: certHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	ca := &cobra.Command{
		Use: "authority DIR", Short: "Make a certificate authority", Args: app.OneName,
		Long:    "Makes ca.pem, which all processes trust (tls.ca), and ca.key, which signs: keep it apart from the processes.",
		Example: "  roost auth cert authority ./ca",
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := authority.New("Roost", o.authorityValid)
			if err == nil {
				err = made.Save(args[0])
			}
			if err != nil {
				return err
			}
			return a.told(map[string]string{"authority": args[0]}, "authority in %s, valid until %s\n", args[0], until(o.authorityValid))
		},
	}
	ca.Flags().DurationVar(&o.authorityValid, "valid", 10*365*24*time.Hour, "how long it is valid")
	issue := &cobra.Command{
		Use: "new NAME", Short: "Make a certificate for a process", Args: app.OneName, Long: certNewHelp,
		Example: "  roost auth cert new region-1 --authority ./ca --cluster prod --role region --out ./certs\n  roost auth cert new region --authority ./ca --cluster prod --role region --shared --out ./certs",
		RunE:    func(_ *cobra.Command, args []string) error { return a.issue(&o, args[0]) },
	}
	flags := issue.Flags()
	flags.StringVar(&o.authority, "authority", "", "directory of the authority")
	flags.StringVar(&o.cluster, "cluster", "dev", "cluster.name of the cluster")
	flags.StringVar(&o.role, "role", "", "coordinator, region or gateway")
	flags.StringSliceVar(&o.hosts, "host", nil, "host name or address of the process")
	flags.BoolVar(&o.shared, "shared", false, "for all processes of the role")
	flags.StringVar(&o.out, "out", ".", "directory of the files")
	flags.DurationVar(&o.valid, "valid", 90*24*time.Hour, "how long it is valid")
	cmd.AddCommand(ca, issue)
	return cmd
}

// issue makes the certificate of a process.
func (a *group) issue(o *certOptions, name string) error {
	switch {
	case o.authority == "":
		return app.Usage(errors.New("--authority is empty; name the directory that roost auth cert authority has made"))
	case o.role != "coordinator" && o.role != "region" && o.role != "gateway":
		return app.Usage(fmt.Errorf("--role is %q; write coordinator, region or gateway", o.role))
	case o.valid <= 0:
		return app.Usage(fmt.Errorf("--valid is %s; it must be above 0", o.valid))
	}
	ca, err := authority.Load(o.authority)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	uri := authority.URI(o.cluster, o.role, name)
	if o.shared {
		uri = authority.RoleURI(o.cluster, o.role)
	}
	cert, key, err := ca.IssueFiles(o.out, name, authority.Request{Name: name, URIs: []string{uri}, Hosts: o.hosts, End: time.Now().Add(o.valid)})
	if err != nil {
		return err
	}
	return a.told(map[string]string{"cert": cert, "key": key, "uri": uri}, "%s and %s for %s, valid until %s\n", cert, key, uri, until(o.valid))
}

// until returns the time at which a certificate made now expires, in UTC as in logs.
func until(valid time.Duration) string { return time.Now().Add(valid).UTC().Format(time.RFC3339) }

// told prints what was done.
func (a *group) told(fields map[string]string, format string, args ...any) error {
	if a.JSON() {
		return json.NewEncoder(a.Out).Encode(fields)
	}
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}
