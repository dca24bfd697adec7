//go:build linux

package tool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
)

// TestPageTarget finds things on a page by the names that preview lists.
func TestPageTarget(t *testing.T) {
	b := newBox(t)
	b.env.Browser = browsertest.Dialer(t)
	t.Cleanup(b.stopAll)
	b.write("target.html", `<title>Target</title><h1>Add</h1><input aria-label="Add"><button>Add</button><a href="#">Only one</a>
		<button style="position:fixed;left:500px;top:500px">Under</button><div style="position:fixed;left:400px;top:400px;width:300px;height:300px;background:red"></div>
		<p style="height:3000px"></p><button>Far down</button>`)
	port := freePort(t)
	b.good([]string{`[button] "Add" at `}, "preview", "command", serverCommand(port), "port", port, "path", "target.html")
	for _, test := range []struct{ name, role, problem string }{
		{"[button] Add", "button", ""}, {`[textbox] "Add"`, "textbox", ""}, {"only one", "link", ""}, {"Far down", "button", ""},
		{"Add", "", `several things on the page are called "Add"; there is: [textbox] "Add"`}, {"[link] Add", "", "nothing to act on is called"}, {"Under", "", "Something is in front of"},
	} {
		item, problem, err := pageTarget(t.Context(), b.env, test.name)
		if err != nil || !strings.Contains(problem, test.problem) || (problem == "") != (test.problem == "") {
			t.Errorf("%s: %+v, %q, %v", test.name, item, problem, err)
		}
		if test.problem == "" && (item.Role != test.role || !item.Visible) {
			t.Errorf("%s: %+v", test.name, item)
		}
	}
	d := &desk{env: b.env, in: GUIInput{Target: "Far down"}, scale: scaling{1280, 800, 1280, 800}}
	if err := d.aim(t.Context()); err != nil || len(d.in.Coordinate) != 2 {
		t.Errorf("%v, %v", d.in.Coordinate, err)
	}
	d.in.Target = "Add"
	if err := d.aim(t.Context()); err == nil || !strings.Contains(fmt.Sprint(err), "not both") {
		t.Error(err)
	}
}
