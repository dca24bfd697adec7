//go:build linux

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

const controlsPage = `<title>Controls</title>
<h2>Settings</h2>
<p>One <i>two</i>
three.</p><p style="display:none">never</p><p style="visibility:hidden">nor this</p>
<label>Your name <input value="Ada"></label>
<input placeholder="E-mail"><input type=password value=secret aria-label=Password>
<label for=c>Agree</label><input type=checkbox id=c checked>
<select aria-label=Colour><option>Red<option selected>Blue</select>
<textarea title=Notes>some notes</textarea>
<button disabled>Save</button><button aria-label="Close it">x</button><input type=submit value=Send>
<a href="/next">The  next
page</a><div onclick="1">A clickable thing</div>
<img alt="A cat" width=10 height=10><div role=switch aria-checked=true tabindex=0>Dark</div>
<div id=host></div><iframe srcdoc="<button>Within a frame</button>"></iframe>
<script>host.attachShadow({mode: "open"}).innerHTML = "<button>In the shadow</button>"</script>
<button style="position:fixed;left:600px;top:500px;width:100px;height:40px">Under</button>
<div style="position:fixed;left:590px;top:490px;width:200px;height:100px;background:red"></div>
<button style="position:fixed;left:100px;top:600px;width:100px;height:40px;margin:0">Placed</button>`

const todoPage = `<title>Todo</title><h1>todos</h1><form id=f><input id=i aria-label="New todo"><button>Add</button></form><ul id=l></ul>
<script>const show = () => { l.innerHTML = ""; for (const t of JSON.parse(localStorage.todos || "[]")) l.append(Object.assign(document.createElement("li"), {textContent: t})) }
f.onsubmit = (e) => { e.preventDefault(); localStorage.todos = JSON.stringify([...JSON.parse(localStorage.todos || "[]"), i.value]); i.value = ""; show() }; show()</script>`

func TestOutline(t *testing.T) {
	s, b := site(t, nil), realBrowser(t)
	p := open(t, b, s.URL+"/controls", OpenOptions{Viewport: true})
	o, err := p.Outline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := o.Text(8 << 10)
	for _, want := range []string{
		"[heading] \"Settings\" (level 2)\n", "One two three.\n", `[textbox] "Your name" = "Ada" at `, `[textbox] "E-mail" at `,
		`[textbox] "Password" = "(hidden)"`, `[checkbox] "Agree" (checked)`, `[combobox] "Colour" = "Blue"`, `[textbox] "Notes" = "some notes"`,
		`[button] "Save" (disabled)`, `[button] "Close it"`, `[button] "Send"`, `[link] "The next page" at `, `/next`,
		`[clickable] "A clickable thing"`, `[img] "A cat"`, `[switch] "Dark" (checked)`, `[button] "In the shadow"`, `[button] "Within a frame"`,
		`[button] "Under" at 650,520, behind something`, `[button] "Placed" at 150,620` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q", want)
		}
	}
	for _, bad := range []string{"never", "nor this", "secret", "attachShadow"} {
		if strings.Contains(text, bad) {
			t.Errorf("it has %q", bad)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if got := o.Text(300); len(got) > 300 || !strings.Contains(got, "more lines]") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// TestOutlineIsBounded reads pages that are made to be unreadable.
func TestOutlineIsBounded(t *testing.T) {
	s, b := site(t, nil), realBrowser(t)
	for _, test := range []struct{ path, want, button string }{
		{"/huge", `[button] "b0"`, ""}, {"/evil", `[button] "Go"`, ""}, {"/spam", "under", ""}, {"/deep", "", ""},
	} {
		p := open(t, b, s.URL+test.path, OpenOptions{Timeout: time.Minute})
		begun := time.Now()
		o, err := p.Outline(t.Context())
		p.Close() // what one does must not slow the next
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		text := o.Text(8 << 10)
		if !strings.Contains(text, test.want) || len(text) > 8<<10 || len(o.Items) > maxItems {
			t.Errorf("%s: %d items, %d bytes: %.300s", test.path, len(o.Items), len(text), text)
		}
		t.Logf("%s: %d items, %d more, in %v", test.path, len(o.Items), o.More, time.Since(begun).Round(time.Millisecond))
	}
}

func TestShows(t *testing.T) {
	s, b := site(t, nil), realBrowser(t)
	p := open(t, b, s.URL+"/later", OpenOptions{})
	for _, test := range []struct {
		text string
		wait time.Duration
		want bool
	}{{"it has come", time.Minute, true}, {"has\n COME", 0, true}, {"it has gone", 0, false}} {
		if got, err := p.Shows(t.Context(), test.text, test.wait); err != nil || got != test.want {
			t.Errorf("%q: %v, %v", test.text, got, err)
		}
	}
	p = open(t, b, s.URL+"/controls", OpenOptions{})
	for text, want := range map[string]bool{"Ada": true, "never": false, "nor this": false, "Within a frame": true, "In the shadow": true, "secret": false, "One two three.": true} {
		if got, err := p.Shows(t.Context(), text, 0); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestFind(t *testing.T) {
	s, b := site(t, nil), realBrowser(t)
	p := open(t, b, s.URL+"/tall", OpenOptions{})
	item, err := p.Find(t.Context(), "", "bottom")
	if err != nil || !item.Visible || item.Role != "button" || item.Y <= 0 || item.Y >= 900 {
		t.Errorf("%+v, %v", item, err)
	}
	p = open(t, b, s.URL+"/controls", OpenOptions{})
	for _, test := range []struct {
		role, name string
		code       glovebox.Code
	}{
		{"button", "placed", ""}, {"", "Send", ""}, {"", "a frame", ""}, {"link", "placed", glovebox.CodeNotFound}, {"", "e", glovebox.CodeConflict}, {"", "", glovebox.CodeNotFound},
	} {
		_, err := p.Find(t.Context(), test.role, test.name)
		if test.code == "" && err != nil || test.code != "" && glovebox.CodeOf(err) != test.code {
			t.Errorf("%s %q: %v", test.role, test.name, err)
		}
	}
	front, err := b.Front(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	front.Close()
}
