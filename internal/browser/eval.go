package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

// world is the name of the one that our scripts run in: they see the document
// of the page, but no function that its scripts may have replaced.
const world = "glovebox"

// scriptTime is how long a script of ours may run, in milliseconds.
const scriptTime = 4000

// eval runs a script in the main frame and decodes what it returns.
func (p *Page) eval(ctx context.Context, script string, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answersIn, errSilent)
	defer cancel()
	err := p.evalOnce(ctx, script, result)
	if _, stale := errors.AsType[*protocolError](err); stale && ctx.Err() == nil {
		err = p.evalOnce(ctx, script, result) // the page went elsewhere in between
	}
	return err
}

func (p *Page) evalOnce(ctx context.Context, script string, result any) error {
	var w struct {
		ID int64 `json:"executionContextId"`
	}
	// The main frame of a tab has the tab's id.
	if err := p.call(ctx, "Page.createIsolatedWorld", object{"frameId": p.target, "worldName": world}, &w); err != nil {
		return err
	}
	var r struct {
		Result    struct{ Value json.RawMessage }
		Exception *exceptionDetails `json:"exceptionDetails"`
	}
	if err := p.call(ctx, "Runtime.evaluate", object{"contextId": w.ID, "expression": script, "returnByValue": true, "timeout": scriptTime}, &r); err != nil {
		return err
	}
	if r.Exception != nil {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the page can't be read: %s", clean(r.Exception.String(), 300))
	}
	if err := json.Unmarshal(r.Result.Value, result); err != nil {
		return fmt.Errorf("what was read of the page can't be: %w", err)
	}
	return nil
}

// Report returns how opening the page went, and what has gone wrong in it since.
func (p *Page) Report() Report { return p.watch.report() }
