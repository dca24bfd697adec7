//go:build linux

package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// tokenCmd makes and removes access tokens of a data directory.
type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token. It is shown once: only its hash is kept."`
	List   tokenListCmd   `cmd:"" help:"List tokens."`
	Delete tokenDeleteCmd `cmd:"" help:"Remove a token; requests with it are refused within seconds."`
}

// tokenData says which data directory.
type tokenData struct {
	Data string `placeholder:"DIR" help:"The server's data directory (default: ~/.local/share/glovebox)."`
}

func (d tokenData) open(a *app) (*backend, error) {
	cfg, err := settings{Data: d.Data}.load(a, nil)
	if err != nil {
		return nil, err
	}
	return openStore(cfg)
}

type tokenCreateCmd struct {
	tokenData
	Tenant string `required:"" placeholder:"NAME" help:"Whose jobs it gives access to."`
	Scope  string `enum:"read,write" default:"write" help:"read, or write, which includes it."`
}

// Run makes a token.
func (c *tokenCreateCmd) Run(a *app) error {
	secret, t, err := glovebox.NewToken(c.Tenant, glovebox.Scope(c.Scope), time.Now())
	if err != nil {
		return err
	}
	b, err := c.open(a)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.store.CreateToken(context.Background(), t); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "Token %s of tenant %s, scope %s. It is not shown again.\n", t.ID, t.Tenant, t.Scope)
	_, err = fmt.Fprintln(a.stdout, secret)
	return err
}

type tokenListCmd struct{ tokenData }

// Run lists tokens.
func (c *tokenListCmd) Run(a *app) error {
	b, err := c.open(a)
	if err != nil {
		return err
	}
	defer b.close()
	tokens, err := b.store.ListTokens(context.Background())
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tSCOPE\tMADE")
	for _, t := range tokens {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.ID, t.Tenant, t.Scope, t.CreatedAt.Local().Format(time.DateTime))
	}
	return w.Flush()
}

type tokenDeleteCmd struct {
	tokenData
	ID string `arg:"" help:"Id of the token, from: glovebox token list."`
}

// Run removes a token.
func (c *tokenDeleteCmd) Run(a *app) error {
	b, err := c.open(a)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.store.DeleteToken(context.Background(), c.ID); err != nil {
		return err
	}
	return a.say("%s: removed", c.ID)
}
