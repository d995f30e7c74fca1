package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/setting"
)

const (
	envPrefix = "ROOST_"

	// maxFile bounds files with secrets or certificates.
	maxFile = 1 << 20
	// maxConfig bounds the configuration file itself: it is written by hand, so
	// a longer one is a mistake, and a byte of YAML can take 500 in memory.
	maxConfig = 64 << 10
	// maxProblems is the number of problems of a file that are reported at once.
	maxProblems = 20
)

// sections are the sections of the file and the environment that belong to some services
// only. A service without keys in such a section ignores it, so that all services of a
// cluster can share one file.
var sections = []string{"allocation", "app", "auth", "coordinator", "gateway", "gossip", "journal", "lease", "public", "region"}

// partKeys are keys that belong to some services only, although other services have keys in the
// same section. Keys of the journal section are for regions, keys of the auth section for gateways,
// the others for members of a cluster.
var partKeys = []string{
	"cluster.seeds", "discovery.contact_all", "discovery.contact_port", "discovery.form_new_cluster", "discovery.give_up",
	"discovery.interval", "discovery.port", "discovery.required_contacts", "discovery.stable_for", "discovery.timeout", "node.zone",
	"journal.patience", "journal.recovery", "journal.types",
	"auth.anonymous", "auth.api_keys", "auth.client_certificates",
	"auth.jwt_audience", "auth.jwt_issuer", "auth.jwt_keys", "auth.jwt_max_age", "auth.jwt_refresh", "auth.jwt_skew",
}

// commandNames are the variables of the roost command, which may be set where a service is started, and the variable
// that names a region's pipe to its parent.
var commandNames = []string{"ROOST_ADMIN", "ROOST_ADMIN_TOKEN", "ROOST_CA", "ROOST_CERT", "ROOST_DIR", "ROOST_GATEWAY", "ROOST_KEY", "ROOST_PARENT_PIPE", "ROOST_TOKEN", "ROOST_TOOL_STATUS"}

// linkNames matches the variables that Kubernetes and Docker set in every container for a
// service called roost or roost-something. They are not configuration.
var linkNames = regexp.MustCompile(`^ROOST_([A-Z0-9_]*_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR|START|PORT_START|PORT_END))?)$`)

// linkValue matches the value of a link's variable. Its name may also be a key's, for example ROOST_DISCOVERY_PORT
// for a service called roost-discovery.
var linkValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// withoutLinks removes the variables of links from an environment.
func withoutLinks(env map[string]string) {
	for name, value := range env { // order-free: each name is judged alone
		prefix, isName := strings.CutSuffix(name, "_NAME")
		switch {
		case strings.HasSuffix(name, "_PORT") && linkValue.MatchString(value):
			delete(env, name)
		case isName && isAlias(prefix, value):
			// Docker also gives the container the whole environment of the linked one.
			maps.DeleteFunc(env, func(other, _ string) bool { return other == name || strings.HasPrefix(other, prefix+"_ENV_") })
		}
	}
}

// isAlias reports whether the value of a variable …_NAME is from a link of Docker: /container/alias, where the alias
// gives the variable its prefix.
func isAlias(prefix, value string) bool {
	at := strings.LastIndexByte(value, '/')
	return at > 0 && value[0] == '/' && strings.ToUpper(strings.ReplaceAll(value[at+1:], "-", "_")) == prefix
}

// Configured is a service's configuration: a struct that embeds [Config] and validates
// its own keys.
type Configured interface {
	Common() *Config
	// Validate returns all errors, joined, each with the key and how to correct it. It calls
	// [setting.Ranges], which checks the embedded Config, too, and adds the service's own conditions.
	Validate() error
}

// Tooled is implemented by the configuration of a program that is a tool instead of a
// service if its first arguments say so.
type Tooled interface {
	// Tools returns what --help says about them: whole lines.
	Tools() string
}

// Sources records where every value of a configuration comes from.
type Sources struct {
	// File is the configuration file that was read, if any.
	File string

	// Asked names the thing that the command line asks for instead of a start: help, help_expert, version or print_config; or "".
	Asked string

	args    []string
	environ []string
	fields  []*field
}

// Load fills config, which holds the defaults, from the YAML file that --config
// or ROOST_CONFIG names, then from the environment, then from the arguments,
// and validates it. The key region.passivate_after is written
//
//	region: {passivate_after: 2m}        in the file; or region.passivate_after: 2m
//	ROOST_REGION_PASSIVATE_AFTER=2m      in the environment; an empty value counts as unset
//	--region.passivate-after 2m          as a flag; also with = and with underscores
//
// A secret can also be the content of a file, named by ROOST_…_FILE; only one of the two may be
// set. Unknown keys in the file, unknown flags and unknown ROOST_… names in the environment are
// errors, unless they belong to other services, to the roost command, or to the links that
// Kubernetes and Docker set. An error names the key, its source and the fix.
func Load(config Configured, args, environ []string) (*Sources, error) {
	fields, err := fieldsOf(config)
	if err != nil {
		return nil, err
	}
	s := &Sources{args: args, environ: environ, fields: fields}
	flags, err := s.parseArgs(args)
	if err != nil || strings.HasPrefix(s.Asked, "help") || s.Asked == "version" {
		return s, err
	}
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) && value != "" {
			env[name] = value
		}
	}
	withoutLinks(env)
	if s.File == "" {
		s.File = env[envPrefix+"CONFIG"]
	}
	var problems []error
	if s.File != "" {
		problems = append(problems, s.readFile())
	}
	problems = append(problems, s.readEnv(env))
	for _, given := range flags {
		problems = append(problems, given.field.set(given.value, given.field.flag()))
	}
	if err := errors.Join(problems...); err != nil {
		return s, err
	}
	common := config.Common()
	err = config.Validate()
	if err == nil { // Validate may have left out setting.Ranges
		err = common.Validate()
	}
	return s, s.explain(err)
}

// keyWords matches whole keys, so that an error that names region.mailbox_share does not name region.mailbox, too.
var keyWords = regexp.MustCompile(`[a-z0-9_./]+`)

// explain adds the sources of the values that a validation error names.
func (s *Sources) explain(err error) error {
	if err == nil {
		return nil
	}
	named := map[string]bool{}
	for _, word := range keyWords.FindAllString(err.Error(), -1) {
		named[strings.TrimRight(word, ".")] = true // a full stop may follow
	}
	for _, f := range s.fields {
		if f.source != "default" && named[f.Key] {
			err = fmt.Errorf("%w\n%s is set by %s", err, f.Key, f.source)
		}
	}
	return err
}

// given is a flag of the command line, with its value.
type given struct {
	field *field
	value string
}

// parseArgs splits the command line into flags. Their values are parsed later, because
// flags override everything else.
func (s *Sources) parseArgs(args []string) ([]given, error) {
	var flags []given
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		flagName, _, _ := strings.Cut(arg, "=")
		name, isFlag := strings.CutPrefix(arg, "-")
		if !isFlag {
			return nil, fmt.Errorf("argument %q is not a flag; see --help", backendurl.Redact(arg))
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		key := strings.ReplaceAll(name, "-", "_")
		f := s.field(key)
		switch {
		case key == "h" || key == "help":
			s.Asked = "help"
			continue
		case key == "version" || key == "print_config" || key == "help_expert":
			s.Asked = key
			continue
		case key != "config" && f == nil:
			return nil, fmt.Errorf("flag %s is unknown%s; see --help", flagName, s.suggest(key, (*field).flag))
		case !hasValue && f != nil && f.unitText() == "true or false":
			value = "true"
		case !hasValue && len(args) == 0:
			return nil, fmt.Errorf("flag %s needs a value", flagName)
		case !hasValue:
			value, args = args[0], args[1:]
		}
		if key == "config" {
			s.File = value
		} else {
			flags = append(flags, given{f, value})
		}
	}
	return flags, nil
}

func (s *Sources) field(key string) *field {
	for _, f := range s.fields {
		if f.Key == key {
			return f
		}
	}
	return nil
}

// foreign reports whether a key belongs to another service.
func (s *Sources) foreign(key string) bool {
	if slices.Contains(partKeys, key) && s.field(key) == nil {
		return true
	}
	section, _, _ := strings.Cut(key, ".")
	return slices.Contains(sections, section) && !slices.ContainsFunc(s.fields, func(f *field) bool {
		return strings.HasPrefix(f.Key, section+".")
	})
}

func (s *Sources) readEnv(env map[string]string) error {
	var problems []error
	known := map[string]bool{envPrefix + "CONFIG": true}
	for _, f := range s.fields {
		name := f.env()
		known[name] = true
		value, set := env[name]
		if set {
			problems = append(problems, f.set(value, name))
		}
		if !f.File {
			continue
		}
		fileName := name + "_FILE"
		known[fileName] = true
		path, ok := env[fileName]
		if !ok {
			continue
		}
		if set {
			problems = append(problems, fmt.Errorf("%s: both %s and %s are set; unset one", f.Key, name, fileName))
			continue
		}
		content, err := readBounded(path, maxFile)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", f.Key, fileName, err))
			continue
		}
		problems = append(problems, f.set(strings.TrimSpace(string(content)), fileName))
	}
	var names []string
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
		if known[name] || slices.Contains(commandNames, name) || s.foreign(strings.Replace(key, "_", ".", 1)) || linkNames.MatchString(name) {
			continue
		}
		fix := s.suggest(key, (*field).env)
		if fix == "" {
			fix = "; see --help for the names, and unset it"
		}
		problems = append(problems, fmt.Errorf("%s in the environment is unknown%s", name, fix))
	}
	return errors.Join(problems...)
}

func (s *Sources) readFile() error {
	content, err := readBounded(s.File, maxConfig)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil // an empty file has no keys
	} else if err != nil {
		return fmt.Errorf("configuration file %s: %w", s.File, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration file %s: it must have one document only", s.File)
	}
	var problems []error
	s.readNode("", document.Content[0], map[string]int{}, &problems)
	if len(problems) >= maxProblems {
		problems = append(problems, fmt.Errorf("%s: the rest was not read", s.File))
	}
	return errors.Join(problems...)
}

// readNode sets the values below a node of the file; lines has the line in which each key
// was set before.
func (s *Sources) readNode(key string, node *yaml.Node, lines map[string]int, problems *[]error) {
	where := fmt.Sprintf("%s:%d", s.File, node.Line)
	bad := func(format string, args ...any) {
		*problems = append(*problems, fmt.Errorf(where+": "+format, args...))
	}
	f := s.field(key)
	if f != nil {
		if before := lines[key]; before != 0 {
			bad("%s is set already in line %d", key, before)
			return
		}
		lines[key] = node.Line
		if err := f.setNode(node, where); err != nil {
			*problems = append(*problems, err)
		}
		return
	}
	switch {
	case s.foreign(key):
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content) && len(*problems) < maxProblems; i += 2 {
			below := node.Content[i].Value
			if key != "" {
				below = key + "." + below
			}
			s.readNode(below, node.Content[i+1], lines, problems)
		}
	case key == "":
		bad("want keys and values, such as log: {level: debug}")
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null" && s.hasSection(key):
		// a section with all its lines commented out
	default:
		bad("%s is unknown%s", key, s.suggest(key, func(f *field) string { return f.Key }))
	}
}

func (s *Sources) hasSection(key string) bool {
	return slices.ContainsFunc(s.fields, func(f *field) bool { return strings.HasPrefix(f.Key, key+".") })
}

// setNode parses the value from a node of the file.
func (f *field) setNode(node *yaml.Node, where string) error {
	var items []string
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return fmt.Errorf("%s: %s has no value: give one or remove the line", where, f.Key)
		}
		return f.set(node.Value, where)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			items = append(items, item.Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			value := node.Content[i+1]
			if value.Kind != yaml.ScalarNode && !f.Nested {
				return fmt.Errorf("%s: %s of %s is not a single value", where, node.Content[i].Value, f.Key)
			}
			text, err := words(value)
			if err != nil {
				return fmt.Errorf("%s: %s of %s is %w", where, node.Content[i].Value, f.Key, err)
			}
			items = append(items, node.Content[i].Value+"="+text)
		}
	default:
		return fmt.Errorf("%s: %s: anchors and aliases are not supported", where, f.Key)
	}
	if err := f.parseList(items); err != nil {
		return fmt.Errorf("%s: %s is %w", where, f.Key, err)
	}
	f.source = where
	return nil
}

// words returns a section of the file in the form that [SetWords] takes, and a single value as
// it is.
func words(node *yaml.Node) (string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, nil
	case yaml.MappingNode:
		var list []string
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i+1].Kind != yaml.ScalarNode {
				return "", fmt.Errorf("wrong at %s: want a single value there", node.Content[i].Value)
			}
			list = append(list, node.Content[i].Value+"="+node.Content[i+1].Value)
		}
		return strings.Join(list, " "), nil
	}
	return "", errors.New("neither a value nor a section")
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("longer than %v", setting.Bytes(most))}
	}
	return content, err
}

// suggest returns the known key that is nearest to an unknown one, in the given spelling.
func (s *Sources) suggest(key string, spell func(*field) string) string {
	var best *field
	nearest := max(2, len(key)/4) + 1
	suffix := "." + key // once: it may be long
	for _, f := range s.fields {
		d := min(distance(f.Key, key), distance(strings.ReplaceAll(f.Key, ".", "_"), key))
		if strings.HasSuffix(f.Key, suffix) {
			d = 1 // the section is missing
		}
		if d < nearest {
			best, nearest = f, d
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", spell(best))
}

// distance returns the Levenshtein distance: the number of letters to insert, delete or
// change to turn a into b.
func distance(a, b string) int {
	if len(a) < len(b) {
		a, b = b, a
	}
	var space [64]int
	row := append(space[:0], make([]int, len(b)+1)...) // b is the shorter one, in practice a known key
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
