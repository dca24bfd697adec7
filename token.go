package glovebox

import "time"

// DefaultTenant owns the jobs of a server that runs without tokens.
const DefaultTenant = "default"

// Scope is what a token allows. ScopeWrite includes ScopeRead.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write"
)

// Token is what the server keeps of an access token: never the token itself,
// only its SHA-256.
type Token struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Scope     Scope     `json:"scope"`
	Hash      [32]byte  `json:"-"`
	CreatedAt time.Time `json:"created_at"`
}
