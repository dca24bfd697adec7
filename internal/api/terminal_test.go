package api

import (
	"errors"
	"testing"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

func readText(t testing.TB, c *websocket.Conn) shellMessage {
	t.Helper()
	typ, b, err := c.Read(t.Context())
	if err != nil || typ != websocket.MessageText {
		t.Fatalf("got %v %q %v", typ, b, err)
	}
	return decode[shellMessage](t, b)
}

func readBinary(t testing.TB, c *websocket.Conn, want string) {
	t.Helper()
	var got []byte
	for len(got) < len(want) {
		typ, b, err := c.Read(t.Context())
		if err != nil || typ != websocket.MessageBinary {
			t.Fatalf("got %v %q %v", typ, b, err)
		}
		got = append(got, b...)
	}
	if string(got) != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	m := &fakeMachine{}
	e, id := liveEnv(t, m)
	ctx := t.Context()
	c, _, err := e.dial("/jobs/" + id + "/terminal/ws?rows=40&cols=120")
	if err != nil {
		t.Fatal(err)
	}
	ready := readText(t, c)
	term := m.terms[ready.Terminal]
	if ready.Type != "ready" || term == nil || !term.cmd.TTY || term.cmd.Root || term.cmd.Dir != "/workspace" || term.cmd.Rows != 40 || term.cmd.Cols != 120 {
		t.Fatalf("got %+v %+v", ready, term)
	}
	pending, err := e.store.PendingSignals(ctx, id)
	if err != nil || len(pending) != 1 || pending[0].Notice != shellNotice {
		t.Errorf("the agent is told: %+v %v", pending, err)
	}
	c.Write(ctx, websocket.MessageBinary, []byte("echo h\xc3\xa4\n"))
	readBinary(t, c, "echo hä\n")
	c.Write(ctx, websocket.MessageText, []byte(`{"type":"resize","rows":30,"cols":90}`))
	c.Write(ctx, websocket.MessageBinary, []byte("."))
	readBinary(t, c, ".")
	if rows, cols := term.size(); rows != 30 || cols != 90 {
		t.Errorf("resized to %dx%d", rows, cols)
	}
	c.Close(websocket.StatusNormalClosure, "")

	again, _, err := e.dial("/jobs/" + id + "/terminal/ws?terminal=" + ready.Terminal + "&offset=5")
	if err != nil {
		t.Fatal(err)
	}
	if r := readText(t, again); r.Terminal != ready.Terminal || r.Offset != 5 {
		t.Errorf("again: %+v", r)
	}
	readBinary(t, again, "hä\n.")
	again.Write(ctx, websocket.MessageBinary, []byte("exit"))
	readBinary(t, again, "exit")
	if r := readText(t, again); r.Type != "exit" || r.Code != 3 {
		t.Errorf("end: %+v", r)
	}
	if _, _, err := again.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", err)
	}
	if pending, _ := e.store.PendingSignals(ctx, id); len(pending) != 1 {
		t.Error("the agent is told again of the same terminal")
	}
}

func TestTerminalRefusals(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, &fakeMachine{})
	for query, want := range map[string]int{
		"?terminal=main": 404, "?terminal=person-x": 404, "?terminal=person-" + glovebox.NewID(): 404, "?rows=0": 400, "?cols=1001": 400, "?offset=-1": 400, "?x=1": 400,
		"?link=" + e.link(id, "view"): 403,
	} {
		if _, resp, err := e.dial("/jobs/" + id + "/terminal/ws" + query); err == nil || resp.StatusCode != want {
			t.Errorf("%.40s: %v, want %d", query, resp.Status, want)
		}
	}
	if r := e.do("GET", "/jobs/"+id+"/terminal/ws", ""); r.StatusCode != 426 || r.Header.Get("Upgrade") != "websocket" {
		t.Errorf("no WebSocket: %d", r.StatusCode)
	}
	for _, bad := range []string{`{"type":"resize","rows":0,"cols":9}`, `{"type":"run"}`, `x`, `{"type":"resize","rows":9,"cols":9,"x":1}`} {
		c, _, err := e.dial("/jobs/" + id + "/terminal/ws?link=" + e.link(id, "control"))
		if err != nil {
			t.Fatal(err)
		}
		readText(t, c)
		c.Write(t.Context(), websocket.MessageText, []byte(bad))
		if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for range maxShells - 4 {
		c, _, err := e.dial("/jobs/" + id + "/terminal/ws")
		if err != nil {
			t.Fatal(err)
		}
		readText(t, c)
	}
	if _, resp, err := e.dial("/jobs/" + id + "/terminal/ws"); err == nil || resp.StatusCode != 409 {
		t.Errorf("one too many: %v", resp.Status)
	}
}

// TestJobEnds: what is open is closed, with a code that says so.
func TestJobEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.Guest = func(string) (Machine, bool) { return &fakeMachine{}, true } })
	id := e.submit("t")
	l := e.claim()
	c, _, err := e.dial("/jobs/" + id + "/terminal/ws")
	if err != nil {
		t.Fatal(err)
	}
	readText(t, c)
	e.append(l, finished(glovebox.StatusError))
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != closeEnded {
		t.Errorf("closed with %v", err)
	}
}

// TestDrainClosesSockets: with a code by which clients go elsewhere.
func TestDrainClosesSockets(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, &fakeMachine{})
	c, _, err := e.dial("/jobs/" + id + "/terminal/ws")
	if err != nil {
		t.Fatal(err)
	}
	readText(t, c)
	e.api.Drain()
	var ce websocket.CloseError
	if _, _, err := c.Read(t.Context()); !errors.As(err, &ce) || ce.Code != websocket.StatusGoingAway {
		t.Errorf("closed with %v", err)
	}
}
