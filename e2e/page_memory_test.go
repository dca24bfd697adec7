package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestPageShowsMemory: a job whose history is longer than the window of its
// model shows how full that was, what was folded and what stands for it, and
// the exact request of a step; what the project keeps can be read. axe finds
// nothing serious in any of it.
func TestPageShowsMemory(t *testing.T) {
	browser := chromium(t)
	s := pageServer(t, "folds.replay")
	code, _, body := s.call(http.MethodPost, "/schedule", "application/json", `{"task": "Read 24 measurements and count them", "project": "sensors"}`)
	var accepted glovebox.Accepted
	if err := json.Unmarshal(body, &accepted); err != nil || code != http.StatusAccepted {
		t.Fatalf("POST /schedule: %d %s", code, body)
	}
	id := accepted.JobID
	t.Cleanup(func() { s.end(id) })
	st := s.finish(id)
	if st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	var v glovebox.JobView
	s.getJSON("/status/"+id, &v)
	if m := v.Memory; m == nil || m.Folds < 3 || m.Epoch != m.Folds+1 || m.Tokens > m.Use.High || m.Digests != m.Summaries {
		t.Fatalf("memory: %+v", v.Memory)
	}
	b := newTab(t, browser)
	p := &person{tab: b, s: s, base: s.url, id: id}
	p.open(s.url + "/#/jobs/" + id + "?tab=memory")
	p.until(`document.querySelectorAll(".memory-pane .fold-mark").length >= 3`)
	p.shot("memory")
	p.press("What the model saw at step")
	p.until(`document.querySelector("dialog .request-part.folded")`)
	if text := p.str(`document.querySelector("dialog .request").innerText`); !strings.Contains(text, "The same bytes as were sent") {
		t.Errorf("the request: %s", text)
	}
	p.get(`(document.querySelectorAll("dialog .request-part.folded .fold-head").forEach(b => b.click()), true)`, new(bool))
	p.until(`document.querySelector("dialog").innerText.includes("Nothing is lost")`)
	p.shot("memory request")
	axe, err := os.ReadFile("../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Log("axe-core is not installed, so the pages are not checked with it: make web-deps")
	}
	// It is checked at the first size: the panes are others at the next one.
	pane := p.sideAt("memory", `document.querySelector(".memory-pane .fold-mark")`)
	p.check(axe, place{"request", pane.hash, pane.there})
	for _, at := range []place{
		pane, {"timeline", "#/jobs/" + id + "?tab=activity", `document.querySelector(".timeline article")`},
		{"projects", "#/projects", `document.querySelector(".projects .project-row")`}, {"project", "#/projects/sensors", `document.querySelector(".projects .check")`},
	} {
		p.check(axe, at)
	}
	b.checkClean(s.url)
}
