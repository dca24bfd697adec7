//go:build linux

package ingvisor

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// TestPublishedState: what is published is root's, can be read and searched
// by tools, and be changed by none.
func TestPublishedState(t *testing.T) {
	c := open(t)
	ctx := t.Context()
	if got := run(t, c, sh("ls -d /glovebox 2>&1 || true")); !strings.Contains(got, "No such file") {
		t.Fatalf("the image has %q", got)
	}
	parts := []guest.PublishPart{
		{Path: "task.md", Data: []byte("Build it.\n"), Last: true},
		{Path: "log/000001-000500.txt", Data: []byte("=== event 1\n1| the needle\n"), Last: true},
		{Path: "log/000001-000500.txt", Grow: true, Offset: 26, Data: []byte("=== event 2\n")},
	}
	if err := c.Publish(ctx, true, parts); err != nil {
		t.Fatal(err)
	}
	stat := run(t, c, sh("cd /glovebox && stat -c '%n %a %u:%g' . task.md log log/*"))
	if want := ". 555 0:0\ntask.md 444 0:0\nlog 555 0:0\nlog/000001-000500.txt 444 0:0\n"; stat != want {
		t.Errorf("there is\n%swant\n%s", stat, want)
	}
	if got := run(t, c, sh("grep -rn needle /glovebox")); got != "/glovebox/log/000001-000500.txt:2:1| the needle\n" {
		t.Errorf("grep says %q", got)
	}
	for _, attack := range []string{
		"echo x >> /glovebox/task.md", "echo x > /glovebox/new", "rm -f /glovebox/task.md", "rmdir /glovebox/log",
		"mv /glovebox/task.md /glovebox/other", "mv /glovebox /glovebox2", "chmod 777 /glovebox/task.md", "chmod 777 /glovebox",
		"chown 1000 /glovebox/task.md", "ln -s /etc/passwd /glovebox/log/x", "truncate -s 0 /glovebox/log/000001-000500.txt",
		"cp /bin/true /glovebox/log/", "ls /var/lib/glovebox/publish",
	} {
		st, out, err := c.Run(ctx, sh(attack), 0)
		if err != nil || st.ExitCode == 0 {
			t.Errorf("%s: %+v, %v, %s", attack, st, err, out)
		}
	}
	for name, err := range map[string]error{
		"write":  c.WriteFile(ctx, "/glovebox/task.md", []byte("x"), 0),
		"remove": c.Remove(ctx, "/glovebox"),
		"move":   c.Move(ctx, "/glovebox/task.md", "/workspace/task.md"),
	} {
		if glovebox.CodeOf(err) != glovebox.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := run(t, c, sh("cat /glovebox/task.md")); got != "Build it.\n" {
		t.Errorf("the task is %q", got)
	}
	if b, _, err := c.ReadFile(ctx, "/glovebox/task.md", 0, 100); err != nil || string(b) != "Build it.\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := c.Publish(ctx, false, []guest.PublishPart{{Path: "task.md", Data: []byte("Changed.\n"), Last: true}}); err != nil {
		t.Error(err)
	}
	if got := run(t, c, sh("cat /glovebox/task.md")); got != "Changed.\n" {
		t.Errorf("the task is %q", got)
	}
}
