package glovebox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"time"
)

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

// TokenPrefix begins every access token, so that scanners for leaked secrets
// can know one.
const TokenPrefix = "gbx_"

// tenantName is what a tenant may be called: it is part of logs and metrics.
var tenantName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// ValidateTenant returns an [Error] if name can't be a tenant's.
func ValidateTenant(name string) error {
	if !tenantName.MatchString(name) {
		return Invalid("tenant", "use 1 to 63 characters of a-z, 0-9, '_' and '-', the first a letter or digit", "%q is not a tenant name", clip(name, 80))
	}
	return nil
}

// NewToken makes an access token. The secret is shown to its user once; the
// server keeps only t.
func NewToken(tenant string, scope Scope, now time.Time) (secret string, t Token, err error) {
	if err := ValidateTenant(tenant); err != nil {
		return "", Token{}, err
	}
	if scope != ScopeRead && scope != ScopeWrite {
		return "", Token{}, Invalid("scope", `give "read" or "write"`, "%q is not a scope", clip(string(scope), 40))
	}
	var b [32]byte
	rand.Read(b[:])
	secret = TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return secret, Token{ID: NewID(), Tenant: tenant, Scope: scope, Hash: HashToken(secret), CreatedAt: now.UTC()}, nil
}

// HashToken returns what is kept of a token. The secret is 256 random bits,
// so a plain hash can't be searched back.
func HashToken(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
