package api

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// caller is on whose behalf a request acts.
type caller struct {
	tenant string
	scope  glovebox.Scope
	link   glovebox.LinkScope // set if it is a link that lets the request in
}

// authenticator finds the caller of a request. Tokens that were found are
// believed for tokenTTL, which is how long a deleted one goes on working;
// tokens that were not found cost their address a try. An address without
// tries left can use those that were found before: to look again for one of
// these is no guess. Others are looked up in their turn: behind a proxy all
// people have one address, and one who guesses must not keep the rest out. A
// place among those that are looked up is held for a pause by each guess, and
// given back at once by a token that is found.
type authenticator struct {
	tokens store.Tokens
	now    func() time.Time
	pause  func() // of guessPause

	mu    sync.Mutex
	known map[[32]byte]knownToken
	tries map[string]*tries
}

type knownToken struct {
	token glovebox.Token
	until time.Time
}

// tries is a bucket of failed attempts of one address.
type tries struct {
	left float64
	at   time.Time

	waiting int           // tokens beyond them that are looked up, or are to be
	places  chan struct{} // of them, those that are; nil before the first
}

const (
	tokenTTL   = 5 * time.Second
	maxKnown   = 10_000 // tokens remembered at once
	maxTries   = 20     // failures in a row from one address
	tryEvery   = time.Second
	guessPause = time.Second // before a wrong token beyond the tries is answered
	maxGuesses = 20          // of one address in such a pause at once
	maxWaiting = 500         // of one address, with those that wait for it
	maxTried   = 10_000      // addresses remembered at once
	maxTokenLn = 200
)

func (a *authenticator) init(t store.Tokens, now func() time.Time) {
	a.tokens, a.now = t, now
	a.pause = func() { <-time.After(guessPause) }
	a.known, a.tries = map[[32]byte]knownToken{}, map[string]*tries{}
}

// caller returns who makes the request. A token that is there must be valid
// even where none is required: one that is mistyped must not act for the
// default tenant.
func (a *authenticator) caller(r *http.Request, required bool) (caller, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if !required {
			return caller{tenant: glovebox.DefaultTenant, scope: glovebox.ScopeWrite}, nil
		}
		return caller{}, unauthorized("no token was given")
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > maxTokenLn {
		return caller{}, unauthorized("the Authorization header does not hold a bearer token")
	}
	t, err := a.lookup(r.Context(), glovebox.HashToken(secret), remoteIP(r))
	if err != nil {
		return caller{}, err
	}
	return caller{tenant: t.Tenant, scope: t.Scope}, nil
}

func unauthorized(msg string) error {
	return withStatus(http.StatusUnauthorized, &glovebox.Error{
		Code: glovebox.CodeUnauthorized, Field: "Authorization", Msg: msg,
		Hint: "send \"Authorization: Bearer TOKEN\"; make one on the server with: glovebox token create --tenant NAME --scope write",
	}, "WWW-Authenticate", `Bearer realm="glovebox"`)
}

func (a *authenticator) lookup(ctx context.Context, hash [32]byte, ip string) (glovebox.Token, error) {
	now := a.now()
	a.mu.Lock()
	k, ok := a.known[hash]
	slow := a.exhausted(ip, now)
	a.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.token, nil
	}
	if slow != nil && !ok {
		if err := a.enter(ctx, slow); err != nil {
			return glovebox.Token{}, err
		}
		defer a.leave(slow)
	}
	t, err := a.tokens.TokenByHash(ctx, hash)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound || (err == nil && subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1) {
		if slow != nil && !ok {
			a.pause() // also where the client has gone away: its place stays taken
			return glovebox.Token{}, tooManyGuesses()
		}
		a.mu.Lock()
		delete(a.known, hash)
		a.failed(ip, now)
		a.mu.Unlock()
		return glovebox.Token{}, unauthorized("the token is not a valid one")
	}
	if err != nil {
		return glovebox.Token{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[hash] = knownToken{*t, now.Add(tokenTTL)}
	return *t, nil
}

// enter waits for a place to look a token up in, for an address without tries.
func (a *authenticator) enter(ctx context.Context, t *tries) error {
	a.mu.Lock()
	if t.waiting >= maxWaiting {
		a.mu.Unlock()
		return tooManyGuesses()
	}
	t.waiting++
	if t.places == nil {
		t.places = make(chan struct{}, maxGuesses)
	}
	a.mu.Unlock()
	select {
	case t.places <- struct{}{}: // in the order in which they came
		return nil
	case <-ctx.Done():
		a.mu.Lock()
		t.waiting--
		a.mu.Unlock()
		return context.Cause(ctx)
	}
}

// leave gives the place of enter back.
func (a *authenticator) leave(t *tries) {
	<-t.places
	a.mu.Lock()
	t.waiting--
	a.mu.Unlock()
}

func tooManyGuesses() error {
	return withStatus(http.StatusTooManyRequests, &glovebox.Error{
		Code: glovebox.CodeUnavailable, Field: "Authorization", Msg: "too many wrong tokens from this address", Hint: "wait a few seconds and check the token",
	}, "Retry-After", "5")
}

// exhausted returns the tries of ip if none is left.
func (a *authenticator) exhausted(ip string, now time.Time) *tries {
	t := a.tries[ip]
	if t == nil {
		return nil
	}
	t.left = min(maxTries, t.left+now.Sub(t.at).Seconds()/tryEvery.Seconds())
	t.at = now
	if t.left >= maxTries && t.waiting == 0 {
		delete(a.tries, ip)
	}
	if t.left < 1 {
		return t
	}
	return nil
}

func (a *authenticator) failed(ip string, now time.Time) {
	t := a.tries[ip]
	if t == nil {
		if len(a.tries) >= maxTried {
			clear(a.tries)
		}
		t = &tries{left: maxTries, at: now}
		a.tries[ip] = t
	}
	t.left--
}

// remoteIP is the address of the other end of the connection. Headers that
// claim another are not believed. Addresses of version 6 count by their /64,
// which is what one customer gets.
func remoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}
