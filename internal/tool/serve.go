package tool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// portPoll is how often it is looked whether a port answers.
const portPoll = 150 * time.Millisecond

// errExited says that what was to serve a page has ended.
var errExited = errors.New("the command ended")

// errPortTime says that no port answered in time.
var errPortTime = errors.New("no port answers")

// answers reports whether something listens on a port of the sandbox's loopback.
func answers(ctx context.Context, g *guest.Client, port uint16) bool {
	conn, err := g.DialPort(ctx, port)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// awaitPort waits until a port answers, at most limit: port, or if that is 0,
// one that nothing listened on before. It returns errExited if p, which may
// be nil, has ended and nothing answers.
func awaitPort(ctx context.Context, g *guest.Client, p *guest.Process, port uint16, before []guest.Listener, limit time.Duration) (uint16, error) {
	up := time.NewTimer(limit)
	defer up.Stop()
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	for {
		ended := false
		if p != nil {
			s, err := p.State(ctx)
			if err != nil {
				return 0, err
			}
			ended = !s.Running
		}
		if port == 0 {
			now, err := g.Listeners(ctx)
			if err != nil {
				return 0, err
			}
			for _, l := range now {
				if l.Port < debugPorts && !listens(before, l.Port) && answers(ctx, g, l.Port) {
					return l.Port, nil
				}
			}
		} else if answers(ctx, g, port) {
			return port, nil
		}
		if ended {
			return 0, errExited
		}
		select {
		case <-tick.C:
		case <-up.C:
			return 0, errPortTime
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// debugPorts is where ports begin that programs choose at random, which
// nobody meant to be looked at.
const debugPorts = 32768

func listens(list []guest.Listener, port uint16) bool {
	return slices.ContainsFunc(list, func(l guest.Listener) bool { return l.Port == port })
}

// listeners names what listens in the sandbox.
func listeners(ctx context.Context, g *guest.Client) string {
	list, err := g.Listeners(ctx)
	if err != nil || len(list) == 0 {
		return "nothing listens on any port"
	}
	var seen []uint16
	var parts []string
	for _, l := range list {
		if !slices.Contains(seen, l.Port) && len(parts) < 10 {
			seen = append(seen, l.Port)
			parts = append(parts, fmt.Sprintf("%d (%s)", l.Port, orUnknown(l.Command)))
		}
	}
	return "what listens is: " + strings.Join(parts, ", ")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return clip.Short(s, 40)
}

// outputEnd returns the end of what a process wrote.
func outputEnd(ctx context.Context, p *guest.Process, bound int) string {
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
	defer cancel()
	s, err := p.State(brief)
	if err != nil || s.Running && s.OutputSize == 0 { // what it has yet to write is not waited for
		return ""
	}
	var b []byte
	end := s.OutputSize
	_ = p.Output(brief, max(0, end-int64(bound)), func(o guest.Output) error {
		b = append(b, o.Data...)
		if s.Running && o.Offset+int64(len(o.Data)) >= end || len(b) > 2*bound {
			return errMatched
		}
		return nil
	})
	return strings.TrimSpace(tailOf(cleanText(b), bound))
}

// withBrowser has f use the sandbox's browser. problem is what the model is
// told if there is no browser that works; an error means that the sandbox
// itself is not there any more, or that ctx ended.
func withBrowser(ctx context.Context, env *Env, f func(b *browser.Browser) error) (problem string, err error) {
	dial := env.Browser
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) { return env.Guest.DialService(ctx, guest.ServiceBrowser) }
	}
	var none error
	b, err := browser.Connect(ctx, func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if glovebox.CodeOf(err) == glovebox.CodeNotFound {
			none = err
		}
		return conn, err
	})
	if err == nil {
		defer b.Close()
		err = f(b)
	}
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case none != nil:
		return "This machine has no browser, so no page can be opened.", nil
	}
	select {
	case <-env.Guest.Done():
		return "", err
	default:
		return "The browser could not be used: " + plain(err), nil
	}
}
