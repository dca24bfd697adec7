package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// hostileTask is a task as one that wants to be more than text has it.
const hostileTask = `<img src=x onerror="pwned='task'"> [a](javascript:pwned=1) ![b](https://evil.example/task.png) </script><script>pwned='task'</script>`

// TestPageShowsForeignTextInert: text of the model, of the sandbox and of the
// person who posts is shown everywhere, and does nothing anywhere.
func TestPageShowsForeignTextInert(t *testing.T) {
	browser := chromium(t)
	s := pageServer(t, "xss.replay")
	b := newTab(t, browser)
	p := &person{tab: b, s: s, base: s.url}
	p.post(hostileTask)
	p.until(`document.querySelector(".composer.asked")`)
	p.inert("asked")
	for _, tab := range []string{"files", "terminal", "preview", "notebook", "network", "usage", "screen"} {
		p.side(tab)
		p.until(`document.querySelector("[role=tabpanel]").innerText.length > 0 || document.querySelector("[role=tabpanel] canvas")`)
		p.inert("at " + tab)
	}
	p.answer("<img src=x onerror=pwned='answer'> [x](javascript:pwned=1)")
	if st := s.finish(p.id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	p.side("result")
	p.until(`document.querySelector(".result").innerText.includes("pwned='summary'")`)
	p.until(`document.querySelector(".result").innerText.includes("pwned='run'")`)
	p.until(`document.querySelector(".proof-body").innerText.includes("pwned='title'")`)
	p.until(`document.querySelector(".proof-body").innerText.includes("pwned='console'")`)
	p.inert("result")
	p.side("files")
	p.until(`document.querySelector("[role=tabpanel]").innerText.includes("pwned='name'")`)
	p.clickOn(`[...document.querySelectorAll("[role=tabpanel] button, [role=tabpanel] [role=treeitem]")].find(e => e.innerText.includes("readme.md"))`)
	p.until(`document.querySelector("[role=tabpanel]").innerText.includes("onload=pwned='diff'")`)
	p.inert("file")
	p.everything()
	p.open(p.base)
	p.until(`document.querySelector(".job-row").innerText.includes("pwned='task'")`)
	p.inert("jobs")
	b.checkClean(s.url)
}

// everything scrolls through the timeline with all of it unfolded, and sees
// that nothing in it is more than text.
func (p *person) everything() {
	p.t.Helper()
	have := ""
	missing := func() (list []string) {
		for _, part := range strings.Fields("task reasoning heading text table code name output traceback window question answer") {
			if !strings.Contains(have, part) {
				list = append(list, part)
			}
		}
		return list
	}
	for end := time.Now().Add(patience); missing() != nil && time.Now().Before(end); { // rows come in a moment after they are scrolled to
		var seen []string
		p.get(`(async () => {
			const el = document.querySelector(".timeline-scroll"), seen = new Set();
			const frame = () => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
			for (let y = 0; y <= el.scrollHeight; y += 250) {
				el.scrollTop = y;
				await frame();
				for (const b of el.querySelectorAll("[aria-expanded=false]")) { b.click(); await frame(); }
				for (const m of el.innerText.matchAll(/pwned=['"]?(\w+)/g)) seen.add(m[1]);
			}
			return [...seen];
		})()`, &seen)
		have += " " + strings.Join(seen, " ")
	}
	p.inert("timeline")
	for _, part := range missing() {
		p.t.Errorf("the timeline shows nothing of %s: %s", part, have)
	}
}

// inert sees that no foreign text became an element or ran.
func (p *person) inert(where string) {
	p.t.Helper()
	p.shot("hostile " + where)
	var found []string
	p.get(`(() => {
		const bad = [];
		if (window.pwned !== undefined) bad.push("it ran: " + window.pwned);
		for (const e of document.querySelectorAll("script:not([src]), object, embed, base, [onerror], [onload], [onclick], svg script, form[action]"))
			bad.push(e.outerHTML.slice(0, 200));
		for (const e of document.querySelectorAll("[src], [href], [srcset], [poster], [action]"))
			for (const a of ["src", "href", "srcset", "poster", "action"]) {
				const v = e.getAttribute(a);
				if (v && /evil\.example|^\s*javascript:|^data:text/i.test(v) && !(e.tagName === "A" && v.startsWith("https://evil.example/"))) bad.push(e.outerHTML.slice(0, 200));
			}
		return bad;
	})()`, &found)
	for _, f := range found {
		p.t.Errorf("%s: %s", where, f)
	}
}
