package glovebox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func TestNewToken(t *testing.T) {
	t.Parallel()
	secret, tok, err := glovebox.NewToken("team-a", glovebox.ScopeRead, time.Now())
	if err != nil || !strings.HasPrefix(secret, glovebox.TokenPrefix) || len(secret) < 40 || tok.Hash != glovebox.HashToken(secret) || tok.Tenant != "team-a" || tok.Scope != "read" {
		t.Errorf("got %d bytes, %+v, %v", len(secret), tok, err)
	}
	if other, _, _ := glovebox.NewToken("team-a", glovebox.ScopeRead, time.Now()); other == secret {
		t.Error("the same token twice")
	}
	for _, tenant := range []string{"", "Team", "-a", "a b", "a/b", "ä", strings.Repeat("a", 64), "a\n"} {
		if _, _, err := glovebox.NewToken(tenant, glovebox.ScopeRead, time.Now()); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	if _, _, err := glovebox.NewToken("a", "admin", time.Now()); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("got %v", err)
	}
}
