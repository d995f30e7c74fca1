package dashboard

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// ticketTime is the time during which a ticket can be exchanged: as long as it takes to open a browser.
	ticketTime = 2 * time.Minute
	// sessionTime is the duration of a session: a working day.
	sessionTime = 12 * time.Hour
	// maxSessions bounds tickets and sessions, of either. The oldest ones end first.
	maxSessions = 256
	// maxOfToken bounds the tickets and sessions of one token, so that its holder cannot end the sessions of all
	// others.
	maxOfToken = 16
	// maxToken is the longest token that is kept, in bytes.
	maxToken = 4096
	// cookie is the name of the cookie of a session.
	cookie = "roost_dashboard"
)

// sessions are the names that browsers use for management tokens. A token itself never reaches a browser. It is
// checked when a ticket is issued, and again at every call that is made with it.
type sessions struct {
	mu      sync.Mutex
	tickets kept
	open    kept
}

// kept are tokens by their names, the oldest first.
type kept struct {
	tokens map[string]token
	order  []string
}

type token struct {
	value string
	until time.Time
}

func (k *kept) put(value string, until time.Time) (name string) {
	name = rand.Text()
	if k.tokens == nil {
		k.tokens = map[string]token{}
	}
	k.tokens[name], k.order = token{value, until}, append(k.order, name)
	of, oldest := 0, 0 // of this token
	for i := len(k.order) - 1; i >= 0; i-- {
		if k.tokens[k.order[i]].value == value {
			of, oldest = of+1, i
		}
	}
	if of > maxOfToken {
		k.drop(oldest)
	}
	for len(k.order) > maxSessions {
		k.drop(0)
	}
	return name
}

func (k *kept) drop(i int) {
	delete(k.tokens, k.order[i])
	k.order = slices.Delete(k.order, i, i+1)
}

func (k *kept) get(name string, now time.Time) (string, bool) {
	t, ok := k.tokens[name]
	if !ok || now.After(t.until) {
		return "", false
	}
	return t.value, true
}

// token returns the token that the session of a request stands for.
func (s *sessions) token(r *http.Request) string {
	c, err := r.Cookie(cookie)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, _ := s.open.get(c.Value, time.Now())
	return value
}

// ticket answers a request that has a management token with a ticket, which a browser can exchange once.
func (d *Dashboard) ticket(w http.ResponseWriter, r *http.Request) {
	value := bearer(r)
	if value == "" || len(value) > maxToken {
		refuse(w, http.StatusUnauthorized, "send the management token in the header Authorization: Bearer")
		return
	}
	// Otherwise anybody could end the sessions of all operators, by as many tickets as are kept.
	if err := d.cfg.CheckToken(r); err != nil {
		refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	d.sessions.mu.Lock()
	name := d.sessions.tickets.put(value, time.Now().Add(ticketTime))
	d.sessions.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"ticket": name}) // errors of clients are ignored
}

// login exchanges a ticket, which is used up, for the cookie of a session.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Ticket string }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxToken))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body must be {\"ticket\": …}")
		return
	}
	now := time.Now()
	s := &d.sessions
	s.mu.Lock()
	value, ok := s.tickets.get(in.Ticket, now)
	if i := slices.Index(s.tickets.order, in.Ticket); i >= 0 {
		s.tickets.drop(i)
	}
	name := ""
	if ok {
		name = s.open.put(value, now.Add(sessionTime))
	}
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusUnauthorized, "this link was used already, or is too old; roost cluster dashboard prints another one")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: name, Path: Prefix, MaxAge: int(sessionTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	w.WriteHeader(http.StatusNoContent)
}
