package config

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// WriteHelp writes the keys with their defaults, units, variables and flags: those that most operators need, or with
// --help-expert the others.
func (s *Sources) WriteHelp(w io.Writer, program string) {
	fmt.Fprintf(w, "Usage: %s [--config FILE] [--KEY VALUE]…\n\n", program)
	fmt.Fprintf(w, "  --config FILE    read a YAML file first (or %sCONFIG)\n", envPrefix)
	fmt.Fprintf(w, "  --print-config   print every value and where it comes from, even if the configuration is invalid, and exit\n")
	fmt.Fprintf(w, "  --version        print the version and exit\n\n")
	fmt.Fprintf(w, "Flags override the environment, which overrides the file, which overrides the defaults.\n\n")
	expert := s.Asked == "help_expert"
	hidden := 0
	for _, f := range s.fields {
		if f.Expert != expert {
			hidden++
			continue
		}
		fmt.Fprintf(w, "  %s, %s\n        %s\n", f.flag(), f.env(), f.Help)
		text, unit := f.defaultText, f.unitText()
		if text == "" {
			text = "empty"
		}
		if f.File {
			text += fmt.Sprintf("; or the content of the file that %s_FILE names", f.env())
		}
		if unit != "" {
			unit = " (" + unit + ")"
		}
		fmt.Fprintf(w, "        default %s%s\n", text, unit)
	}
	if hidden > 0 && !expert {
		fmt.Fprintf(w, "\n%d more settings are for experts: %s --help-expert\n", hidden, program)
	}
}

// WriteEffective writes every key with its value and source. Secrets are not shown, nor
// are passwords and tokens in URLs.
func (s *Sources) WriteEffective(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range s.fields {
		value := backendurl.Redact(f.text())
		if f.Secret && value != "" {
			value = "(secret)"
		}
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Key, value, f.source)
	}
	table.Flush()
}
