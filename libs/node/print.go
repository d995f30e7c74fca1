package node

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// WriteHelp writes every key with its default, unit, variable and flag.
func (s *Sources) WriteHelp(w io.Writer, program string) {
	fmt.Fprintf(w, "Usage: %s [--config FILE] [--KEY VALUE]…\n\n", program)
	fmt.Fprintf(w, "  --config FILE    read a YAML file first (or %sCONFIG)\n", envPrefix)
	fmt.Fprintf(w, "  --print-config   print every value and where it comes from, even if the configuration is invalid, and exit\n")
	fmt.Fprintf(w, "  --version        print the version and exit\n\n")
	fmt.Fprintf(w, "Flags override the environment, which overrides the file, which overrides the defaults.\n\n")
	for _, f := range s.fields {
		fmt.Fprintf(w, "  %s, %s\n        %s\n", f.flag(), f.env(), f.help)
		preset, unit := f.preset, f.unitText()
		if preset == "" {
			preset = "empty"
		}
		if f.file {
			preset += fmt.Sprintf("; or the content of the file that %s_FILE names", f.env())
		}
		if unit != "" {
			unit = " (" + unit + ")"
		}
		fmt.Fprintf(w, "        default %s%s\n", preset, unit)
	}
}

// WriteEffective writes every key with its value and source. Secrets are not shown, nor
// are passwords and tokens in URLs.
func (s *Sources) WriteEffective(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range s.fields {
		value := backendurl.Redact(f.text())
		if f.secret && value != "" {
			value = "(secret)"
		}
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.key, value, f.source)
	}
	table.Flush()
}
