package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/glovebox-dev/glovebox"
)

// TestPageIsAccessible: axe finds nothing serious in any page, light or dark,
// and a job can be posted and followed without a mouse. It also measures what
// the page costs to load.
func TestPageIsAccessible(t *testing.T) {
	browser := chromium(t)
	s := pageServer(t, "watch.replay")
	b := newTab(t, browser)
	p := &person{tab: b, s: s, base: s.url}
	measurePaint(t, b, s)
	p.withoutMouse("Write a note")
	t.Cleanup(func() { s.end(p.id) })
	p.until(`document.querySelector(".composer.asked")`)
	axe, err := os.ReadFile("../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Log("axe-core is not installed, so the pages are not checked with it: make web-deps")
	}
	p.check(axe, place{"job " + p.id + " live", "#/jobs/" + p.id, `document.querySelector(".composer.asked")`})
	p.answerWithoutMouse("Yes.")
	if st := s.finish(p.id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	p.until(`document.querySelector(".result")`)
	for _, at := range []place{
		{"jobs", "#/", `document.querySelector(".job-row")`}, {"new job", "#/new", `document.querySelector(".new-job")`},
		{"result", "#/jobs/" + p.id, `document.querySelector(".result")`}, p.sideAt("files", `document.querySelector("[role=treeitem]")`), p.sideAt("network", "true"),
		p.sideAt("usage", `document.querySelector(".usage .chart")`), p.sideAt("screen", `document.querySelector(".screen.recorded")`),
	} {
		p.check(axe, at)
	}
	b.checkClean(s.url)
}

// withoutMouse posts a task with the keyboard alone.
func (p *person) withoutMouse(task string) {
	p.t.Helper()
	p.open(p.base)
	p.until(find("Start the first job"))
	p.keys("n") // for a new job
	p.until(`document.activeElement.tagName === "TEXTAREA"`)
	p.keys(task)
	for range 30 { // to the button, as one who does not know its shortcut
		if p.str(`document.activeElement.innerText`) != "" && strings.HasPrefix(p.str(`document.activeElement.innerText`), "Start the job") {
			break
		}
		p.special("Tab", 9, "")
	}
	p.until(`document.activeElement.matches(":focus-visible") && document.activeElement.innerText.startsWith("Start the job")`)
	p.keys("\r")
	p.until(`location.hash.startsWith("#/jobs/")`)
	p.id = strings.TrimPrefix(p.str("location.hash"), "#/jobs/")
}

// answerWithoutMouse answers with the keyboard alone.
func (p *person) answerWithoutMouse(text string) {
	p.t.Helper()
	p.until(`innerWidth === 1440 && document.querySelector("[data-split] .composer textarea")`)
	// The key is bound a moment after what it leads to is there.
	p.get(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { document.activeElement.blur(); done(true) }))))`, new(bool))
	p.keys("m") // to write to the agent
	p.until(`document.activeElement.matches(".composer textarea")`)
	p.keys(text)
	p.special("Tab", 9, "")
	p.until(`document.activeElement.innerText === "Answer"`)
	p.keys("\r")
	p.until(`document.querySelector(".composer textarea")?.value !== ` + quote(text))
}

// place is a page to look at.
type place struct {
	name, hash string
	there      string // an expression that is true once it shows what it is for
}

// sideAt is the job with a tab at the side.
func (p *person) sideAt(tab, there string) place {
	return place{tab, "#/jobs/" + p.id + "?tab=" + tab, `document.querySelector("[data-tab=` + tab + `][aria-selected=true]") && ` + there}
}

// laidOut is true when the page has taken in its size, which it hears of after
// the window has it.
const laidOut = `(!document.querySelector(".job-body") || matchMedia("(max-width: 900px)").matches === !!document.querySelector(".job-body.narrow"))`

// check looks at a page in both schemes, large and small.
func (p *person) check(axe []byte, at place) {
	p.t.Helper()
	name := at.name
	p.get(`(location.hash = `+quote(at.hash)+`, true)`, new(bool))
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 390} {
			// Without motion, so that no colour is half way to another.
			media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
			if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media}); err != nil {
				p.t.Fatal(err)
			}
			p.do("resize", chromedp.EmulateViewport(width, 900))
			p.until(fmt.Sprintf(`%s && %s && !document.querySelector(".loading, .picture-wait") && innerWidth === %d && matchMedia("(prefers-color-scheme: %s)").matches`, at.there, laidOut, width, scheme))
			p.shot(fmt.Sprintf("access %s %s %d", strings.Fields(name)[0], scheme, width))
			p.until(`document.documentElement.scrollWidth === innerWidth`) // nothing is too wide
			if axe == nil {
				continue
			}
			var found []struct {
				ID, Impact, Help string
				Nodes            []struct{ HTML, FailureSummary string }
			}
			if _, err := p.eval(string(axe) + "; true"); err != nil {
				p.t.Fatalf("axe: %v", err)
			}
			p.get(`axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations.filter(v => ["serious", "critical"].includes(v.impact)))`, &found)
			for _, v := range found {
				for _, n := range v.Nodes {
					p.t.Errorf("%s, %s, %d wide: %s %s (%s): %s %s", name, scheme, width, v.Impact, v.ID, v.Help, n.HTML, n.FailureSummary)
				}
			}
		}
	}
	p.do("resize", chromedp.EmulateViewport(1440, 900))
	p.until(`innerWidth === 1440 && ` + laidOut)
}

// The most JavaScript that the page may send before a screen or a terminal is opened.
const maxScript = 350 << 10 // bytes, compressed

// measurePaint loads the page three times and logs what a person waits for.
func measurePaint(t *testing.T, b *tab, s *server) {
	t.Helper()
	best := 1e9
	for range 3 {
		b.open("about:blank")
		b.open(s.url)
		b.until(`document.querySelector("h1") && performance.getEntriesByName("first-contentful-paint").length`)
		var paint float64
		b.get(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &paint)
		best = min(best, paint)
	}
	var sent float64
	b.get(`performance.getEntriesByType("resource").filter(e => e.name.endsWith(".js") && !/\/(rfb|xterm)-/.test(e.name)).reduce((n, e) => n + e.encodedBodySize, 0)`, &sent)
	t.Logf("first paint %.0f ms (the best of three), JavaScript sent %.1f KB", best, sent/1024)
	if sent == 0 || sent > maxScript {
		t.Errorf("the page sends %.0f bytes of JavaScript; it may send %d", sent, maxScript)
	}
}
