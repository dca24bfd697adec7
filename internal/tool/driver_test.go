//go:build linux

package tool

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/fake"
)

// TestOverDriver works in a sandbox of a driver, over two connections, the
// first of which breaks.
func TestOverDriver(t *testing.T) {
	t.Parallel()
	driver, err := fake.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const id = sandbox.ID("0123456789abcdefghjkmnpqrs")
	if err := driver.Create(t.Context(), sandbox.Spec{ID: id}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Destroy(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	b := newBox(t)
	dial := func() {
		conn, err := driver.Dial(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if b.env.Guest, err = guest.NewClient(t.Context(), conn, guest.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.env.Guest.Close() })
	}
	dial()
	b.good([]string{"Created /workspace/a.txt"}, "write_file", "path", "a.txt", "content", "hello\n")
	shell := idIn(t, b.good(nil, "shell", "command", "cat a.txt; sleep 600", "background", true))
	b.await(shell, "hello")
	if err := b.env.Guest.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := b.try(t.Context(), "read_file", "path", "a.txt"); err == nil {
		t.Errorf("a result over a broken connection: %s", textOf(r))
	}
	dial()
	b.good([]string{"1\thello"}, "read_file", "path", "a.txt")
	b.good([]string{"hello\n[" + shell + " is running"}, "shell_output", "id", shell)
	b.good([]string{"ended on SIGINT"}, "shell_stop", "id", shell)
}
