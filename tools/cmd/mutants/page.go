package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// invariant is a row of the page.
type invariant struct {
	text, guards string
	mutants      []string
	at           token.Position
}

// keys begin the parts of the comment of an invariant, in this order.
var keys = []string{"Invariant", "Guarded by", "Mutants"}

var keyForm = regexp.MustCompile(`^// (Invariant|Guarded by|Mutants): `)

// invariants returns the invariants in the comments of a file.
func (f *file) invariants() (found []invariant, errs []error) {
	for _, group := range f.ast.Comments {
		if !strings.Contains(group.List[0].Text, "// Invariant: ") && len(group.List) == 1 {
			continue
		}
		var parts map[string]string
		var at token.Position
		last := ""
		end := func() {
			if parts == nil {
				return
			}
			in, err := newInvariant(parts, at)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", at, err))
			} else {
				found = append(found, in)
			}
			parts = nil
		}
		for _, c := range group.List {
			key := ""
			if m := keyForm.FindStringSubmatch(c.Text); m != nil {
				key = m[1]
			}
			switch {
			case key == "Invariant":
				end()
				parts, at, last = map[string]string{}, f.fset.Position(c.Pos()), ""
			case parts == nil:
				continue
			case key == "" && !strings.HasPrefix(c.Text, "// "): // an empty line, or a mutant
				end()
				continue
			case key != "" && slices.Index(keys, key) <= slices.Index(keys, last):
				errs = append(errs, fmt.Errorf("%s: the parts of an invariant are %s, in this order", f.fset.Position(c.Pos()), strings.Join(keys, ", ")))
			}
			text := strings.TrimPrefix(c.Text, "// ")
			if key != "" {
				last, text = key, strings.TrimPrefix(text, key+": ")
			}
			parts[last] = strings.TrimSpace(parts[last] + " " + text)
		}
		end()
	}
	return found, errs
}

func newInvariant(parts map[string]string, at token.Position) (invariant, error) {
	in := invariant{text: strings.TrimSuffix(parts["Invariant"], "."), guards: strings.TrimSuffix(parts["Guarded by"], "."), at: at}
	for name := range strings.SplitSeq(parts["Mutants"], ",") {
		if name = strings.TrimSuffix(strings.TrimSpace(name), "."); name != "" {
			in.mutants = append(in.mutants, name)
		}
	}
	if in.guards == "" && len(in.mutants) == 0 {
		return in, fmt.Errorf("an invariant without mutants names its guards")
	}
	return in, nil
}

const intro = `# Invariants and their guards

<!-- Written by make invariants from the comments at the guards. -->

Each row is a property that always holds, the code that guards it, and the mutants that remove the guard, one at a time.
` + "`make mutants`" + ` shows that a test notices each mutant. [ARCHITECTURE](../../ARCHITECTURE.md#the-twelve-invariants-that-define-the-system) names the twelve that define the system.

| invariant | guarded by | mutants |
|---|---|---|
`

const more = `
## More guards

These guards have mutants, too. They belong to no invariant of the table: most of them make something faster or fairer, or give a better reason.

| guard | mutants |
|---|---|
`

// page returns the page of invariants.
func (r *repository) page() ([]byte, error) {
	slices.SortStableFunc(r.invariants, func(a, b invariant) int {
		return cmp.Or(strings.Compare(path.Dir(a.at.Filename), path.Dir(b.at.Filename)), strings.Compare(a.at.Filename, b.at.Filename), a.at.Line-b.at.Line)
	})
	var b bytes.Buffer
	b.WriteString(intro)
	rows := map[string]bool{} // the mutants in rows
	for _, in := range r.invariants {
		for _, name := range in.mutants {
			rows[name] = true
		}
		guards := in.guards
		if guards == "" {
			guards = "`" + strings.Join(r.guards(in.mutants), "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", in.text, guards, strings.Join(in.mutants, ", "))
	}
	b.WriteString(more)
	for i := 0; i < len(r.mutants); {
		guard := r.mutants[i].guard
		var names []string
		for ; i < len(r.mutants) && r.mutants[i].guard == guard; i++ {
			if name := r.mutants[i].name; !rows[name] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s |\n", guard, strings.Join(names, ", "))
		}
	}
	if len(r.invariants) == 0 {
		return nil, fmt.Errorf("no comment has an invariant")
	}
	return b.Bytes(), nil
}

// guards returns the functions that have one of the mutants.
func (r *repository) guards(names []string) []string {
	var all []string
	for _, m := range r.mutants {
		if slices.Contains(names, m.name) && !slices.Contains(all, m.guard) {
			all = append(all, m.guard)
		}
	}
	return all
}
