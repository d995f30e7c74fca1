package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// json reports whether the output is for programs.
func (a *app) json() bool { return a.output == "json" }

// printJSON prints one value on one line.
func (a *app) printJSON(v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", content)
	return err
}

// printMessage prints a message of an API as JSON, with the names of its .proto
// file and without leaving anything out.
func (a *app) printMessage(m proto.Message) error {
	content, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	// The library deliberately varies its white space.
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", compact.Bytes())
	return err
}

// printTable prints aligned columns without lines; columns named in right are
// aligned to the right.
func (a *app) printTable(header []string, rows [][]any, right ...string) error {
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
				row[i] = printable(text)
			}
		}
		t.AppendRow(row)
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(a.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// mostNamed is how many characters of a name a table shows; JSON has all.
const mostNamed = 64

// named is quoted, and a long name does not make all rows of a table wide.
func named(name string) string {
	name = quoted(name)
	if r := []rune(name); len(r) > mostNamed {
		const last = 20
		name = string(r[:mostNamed-last-1]) + "…" + string(r[len(r)-last:])
	}
	return name
}

// quoted makes a name that users have chosen fit to be shown: it cannot break out of its cell, or make a row that does
// not exist. A name that is not in Unicode's normal form C is shown with escapes. Names are bytes, so it is another one
// than the name that looks the same.
func quoted(name string) string {
	switch {
	case !norm.NFC.IsNormalString(name):
		return strconv.QuoteToASCII(name)
	case name != printable(name), strings.HasPrefix(name, `"`), strings.Contains(name, "  "), strings.TrimSpace(name) != name:
		return strconv.Quote(name)
	}
	return name
}

// printLines prints one line after the other.
func (a *app) printLines(lines []string) error {
	_, err := fmt.Fprintln(a.out, strings.Join(lines, "\n"))
	return err
}

// plural returns a count with its noun.
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ty"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
