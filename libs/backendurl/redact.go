package backendurl

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden stands where a secret was, as in [url.URL.Redacted].
const hidden = "xxxxx"

// Redact returns a configured value, such as the URL of a backend or the keywords
// and values of libpq, without the passwords and tokens in it. It need not be
// well-formed: when in doubt about where a secret ends, more is hidden. Whatever
// prints, logs or serves a value that may be a URL must pass it through here, or
// through [RedactText].
func Redact(value string) string {
	scheme, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		if scheme, list, ok := strings.Cut(value, ":"); ok && keepsNoPassword(scheme) {
			return scheme + ":" + redactItems(list)
		}
		return redactPairs(redactUser("", value))
	}
	if keepsNoPassword(scheme) {
		hosts, path := rest, ""
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			hosts, path = rest[:i], rest[i:]
		}
		return scheme + "://" + redactItems(hosts) + redactQuery(path)
	}
	return scheme + "://" + redactQuery(redactUser(scheme, rest))
}

// RedactText returns a text, such as an error or a line of a log, without the
// passwords and tokens of the URLs in it.
func RedactText(text string) string {
	if strings.Contains(text, "://") {
		text = urls.ReplaceAllStringFunc(text, Redact)
	}
	if strings.Contains(text, "=") {
		text = redactPairs(text)
	}
	return text
}

var (
	urls = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'`<>]+")
	// pairs are libpq's keywords and values; a value may be quoted.
	pairs = regexp.MustCompile(`(?i)\b([a-z_]+)( ?= ?)('(?:[^'\\]|\\.)*'|[^\s&'"` + "`" + `]+)`)
)

// keepsNoPassword reports whether a scheme names hosts or a path alone, in which
// an @ belongs to a role or to the name of a file.
func keepsNoPassword(scheme string) bool {
	return scheme == "static" || scheme == "file" || scheme == "sqlite"
}

// redactItems hides the password of every host of a list; the @ of role@host:port
// stays.
func redactItems(list string) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		items[i] = redactUser("postgres", item)
	}
	return strings.Join(items, ",")
}

// redactUser hides what is before the last @: a password may hold any character.
// The name of a PostgreSQL user stays; elsewhere a name may be a token.
func redactUser(scheme, rest string) string {
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return rest
	}
	if scheme != "" && scheme != "postgres" && scheme != "postgresql" {
		return hidden + rest[at:]
	}
	user, _, hasPassword := strings.Cut(rest[:at], ":")
	if !hasPassword {
		return rest
	}
	return user + ":" + hidden + rest[at:]
}

// redactQuery hides the values of secret parameters.
func redactQuery(rest string) string {
	before, query, ok := strings.Cut(rest, "?")
	if !ok {
		return rest
	}
	parameters := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, p := range parameters {
		name, _, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil || isSecret(plain) {
			parameters[i] = name + "=" + hidden
		}
	}
	return before + "?" + strings.Join(parameters, "&")
}

func redactPairs(text string) string {
	return pairs.ReplaceAllStringFunc(text, func(pair string) string {
		parts := pairs.FindStringSubmatch(pair)
		if !isSecret(parts[1]) {
			return pair
		}
		return parts[1] + parts[2] + hidden
	})
}

// isSecret reports whether a parameter of this name is a secret itself, and not
// the name of a file that holds one.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "file") {
		return false
	}
	for _, word := range []string{"password", "passwd", "pwd", "token", "secret", "apikey", "api_key"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
