package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/internal/phrase"
)

// JSON reports whether the output is for programs.
func (a *App) JSON() bool { return a.Output == "json" }

// PrintJSON prints one value on one line.
func (a *App) PrintJSON(v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", content)
	return err
}

// PrintMessage prints a message of an API as JSON, with the names of its .proto
// file and without leaving anything out.
func (a *App) PrintMessage(m proto.Message) error {
	content, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	// The library deliberately varies its white space.
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", compact.Bytes())
	return err
}

// PrintTable prints aligned columns without lines; columns named in right are
// aligned to the right.
func (a *App) PrintTable(header []string, rows [][]any, right ...string) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	head := make(table.Row, len(header))
	var columns []table.ColumnConfig
	for i, name := range header {
		head[i] = name
		for _, r := range right {
			if r == name {
				columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
			}
		}
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(head)
	for _, row := range rows {
		for i, cell := range row {
			if text, is := cell.(string); is { // it may be of a stranger, such as the text of a panic
				row[i] = phrase.Printable(text)
			}
		}
		t.AppendRow(row)
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(a.Out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// PrintLines prints one line after the other.
func (a *App) PrintLines(lines []string) error {
	_, err := fmt.Fprintln(a.Out, strings.Join(lines, "\n"))
	return err
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
