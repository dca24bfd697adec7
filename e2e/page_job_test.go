package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/glovebox-dev/glovebox"
)

// pageServer is a server on which a recording of the page's own is played.
func pageServer(t *testing.T, conversation string) *server {
	t.Helper()
	return serve(t, dataDir(t), pageArgs(t, conversation)...)
}

// pageArgs are what such a server is started with. Machines start cold: to make
// a template takes longer than these tests do.
func pageArgs(t *testing.T, conversation string) []string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", conversation))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--model", "replay:" + path, "--set", "templates=false", "--set", "pool.size=0"}
}

// TestPage lets a browser do what a person does with a job: post it, watch it,
// step in, look at what it built, and take it home.
func TestPage(t *testing.T) {
	browser := chromium(t)
	s := pageServer(t, "page.replay")
	b := newTab(t, browser)
	p := &person{tab: b, s: s, base: s.url}

	p.post("Build a page that counts clicks")
	p.watch()
	p.seeTheScreenChange()
	p.takeOver()
	p.useThePreview()
	p.useTheTerminal()
	p.openTheNotebook()
	p.answer("Yes, finish.")
	p.seeTheResult()
	p.scrub()
	p.findNotebook(p.download())
	b.checkClean(s.url)
}

// end makes sure that a job is over, so that its machine is gone.
func (s *server) end(id string) {
	if id != "" && !s.status(id).Status.Terminal() {
		s.call(http.MethodPost, "/jobs/"+id+"/cancel", "", "")
		s.finish(id)
	}
}

// person is someone at a browser.
type person struct {
	*tab
	s    *server
	base string // address of the page
	id   string // of the job
}

// post fills in the form, on a server that has no jobs.
func (p *person) post(task string) {
	p.t.Helper()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.shot("failed " + p.t.Name())
		}
		p.s.end(p.id)
	})
	p.open(p.base)
	p.until(find("Start the first job"))
	p.shot("01 no jobs")
	p.press("Start the first job")
	p.until(`document.activeElement.tagName === "TEXTAREA"`)
	p.keys(task)
	p.shot("02 new job")
	p.press("Start the job")
	p.until(`location.hash.startsWith("#/jobs/")`)
	p.id = strings.TrimPrefix(p.str("location.hash"), "#/jobs/")
	if !glovebox.ValidID(p.id) {
		p.t.Fatalf("the page is at job %q", p.id)
	}
}

// watch follows the timeline until the agent asks.
func (p *person) watch() {
	p.t.Helper()
	p.until(`document.querySelector("h1").innerText.includes("counts clicks")`)
	p.shot("03 started")
	p.until(`document.querySelector(".plan").innerText.includes("Write the counter")`)
	p.shot("04 plan")
	p.until(`document.querySelector(".composer").innerText.includes("Is anybody watching?")`)
	p.shot("05 asked")
	p.until(`document.querySelector(".composer strong + p, .composer .markdown strong")?.innerText === "watching"`)
	p.until(`document.querySelector(".timeline").innerText.includes("the answer is 42") || document.querySelector(".timeline").innerText.includes("Click counter")`)
}

// seeTheScreenChange sees the agent open a window.
func (p *person) seeTheScreenChange() {
	p.t.Helper()
	p.side("screen")
	p.until(`document.querySelector(".screen-bar .tag").textContent === "Live"`)
	p.until(`new Set(` + pixels + `).size > 8`)
	p.shot("06 live")
	before := p.str(pixels)
	p.answer("Yes, I am.")
	p.until(pixels + `.join() !== ` + quote(before))
	p.until(`document.querySelector(".composer").innerText.includes("Shall I finish?")`)
	p.shot("07 editor")
}

// pixels is a sample of the screen's canvas.
const pixels = `(() => {
	const c = document.querySelector(".vnc canvas"), d = c.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, c.width, c.height).data, out = [];
	for (let y = 8; y < c.height; y += 16) for (let x = 8; x < c.width; x += 16) out.push(d[(y * c.width + x) * 4] << 16 | d[(y * c.width + x) * 4 + 1] << 8 | d[(y * c.width + x) * 4 + 2]);
	return out;
})()`

// written is what the person types. Every letter needs another way over: on
// the keyboard, on other keyboards, and on none.
const written = "Grüße, 世界, ñ €5"

// beside is what the screen shows at the right of and below the middle of the
// agent's editor, where a menu comes up. The editor is empty there.
const beside = `(() => {
	const c = document.querySelector(".vnc canvas");
	return c.getContext("2d").getImageData(c.width * .62 + 8, c.height * .4 + 8, 64, 64).data.join();
})()`

// takeOver types into the agent's editor.
func (p *person) takeOver() {
	p.t.Helper()
	p.press("Take over")
	p.until(`document.querySelector(".screen").classList.contains("mine")`)
	p.menu()
	before := p.str(pixels)
	p.layout(written)
	p.until(pixels + `.join() !== ` + quote(before))
	p.shot("08 typed")
	p.key("Control", "ControlLeft", true)
	p.key("s", "KeyS", true)
	p.key("s", "KeyS", false)
	p.key("Control", "ControlLeft", false)
	p.waitFor("note.txt", written)
	p.press("Give back")
	p.until(`!document.querySelector(".screen").classList.contains("mine")`)
	p.s.follow(p.id, func(e glovebox.Event) bool {
		if e.Type != glovebox.EventControl {
			return true
		}
		c := decode[glovebox.ControlChanged](p.t, e)
		if c.Control == glovebox.ControlUser {
			return true
		}
		for _, f := range c.Changes {
			if f.Path == "note.txt" {
				return false
			}
		}
		p.t.Errorf("the agent is told of %+v, not of note.txt", c.Changes)
		return false
	})
	p.until(`document.querySelector(".timeline").innerText.includes("note.txt")`)
	p.shot("09 given back")
}

// menu has a menu come and go in the agent's editor: then the mouse works, and
// the window manager is done with the click, during which it holds back the
// mouse but not the keys. A person whose click came to nothing, since the
// server let the mouse through a moment after the page said so or the editor
// was still being drawn, tries again.
func (p *person) menu() {
	p.t.Helper()
	soon := func(what string) bool {
		return p.str(`await new Promise(done => {
			const look = setInterval(() => { if (`+what+`) end(true) }, 25), late = setTimeout(() => end(false), 10000);
			const end = so => { clearInterval(look); clearTimeout(late); done(so) };
		})`) == "true"
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		p.get(`(window.before = `+beside+`, true)`, new(bool))
		p.clickIn(`document.querySelector(".vnc canvas")`, .62, .4, chromedp.ButtonRight)
		came := soon(beside + ` !== before`)
		p.special("Escape", 27, "")
		if came && soon(beside+` === before`) {
			return
		}
	}
	p.t.Fatal("no menu comes and goes in the editor")
}

// file reads a file of the project, empty if it is not there.
func (p *person) file(path string) string {
	p.t.Helper()
	code, _, body := p.s.call(http.MethodGet, "/jobs/"+p.id+"/files/"+path, "", "")
	if code == http.StatusNotFound {
		return ""
	}
	if code != http.StatusOK {
		p.t.Fatalf("GET file %s: %d %s", path, code, body)
	}
	return string(body)
}

// waitFor waits until a file of the project has a text in it.
func (p *person) waitFor(path, text string) {
	p.t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if got = p.file(path); strings.Contains(got, text) {
			return
		}
		<-time.After(20 * time.Millisecond) // nothing tells of what a program in the sandbox writes
	}
	p.t.Fatalf("%s holds %q, want %q", path, got, text)
}

// useThePreview clicks in the app that the agent built, in its frame and in a
// tab of its own.
func (p *person) useThePreview() {
	p.t.Helper()
	p.side("preview")
	p.until(`document.querySelector("iframe")?.src.includes(".localhost:` + port(p.t, p.s.url) + `/")`)
	app := p.newTabOf(func() { p.press("In a new tab") })
	app.until(`document.title === "Counter" && document.querySelector("#add")`)
	if origin := app.str("location.origin"); !strings.HasSuffix(origin, ".localhost:"+port(p.t, p.s.url)) {
		p.t.Errorf("the app has the origin %s", origin)
	}
	if got := app.str("document.cookie"); got != "" {
		p.t.Errorf("the app can read the cookies %q", got)
	}
	app.clickOn(`document.querySelector("#add")`)
	app.until(`document.querySelector("#n").innerText === "1"`)
	app.shot("10 app")
	p.front()
	p.waitFor("clicks.txt", "click 1")
	p.shot("11 preview")
	for end := time.Now().Add(patience); !strings.Contains(p.file("clicks.txt"), "click 2") && time.Now().Before(end); {
		p.clickOn(`document.querySelector("iframe")`) // nothing tells that a frame of another origin is there
	}
	p.waitFor("clicks.txt", "click 2")
	p.shot("12 preview clicked")
	p.keepTheKeyboard()
}

// keepTheKeyboard writes to the agent while the app in the frame wants the keyboard.
func (p *person) keepTheKeyboard() {
	p.t.Helper()
	app := p.frame()
	p.clickOn(`document.querySelector(".composer textarea")`)
	p.keys("half a ")
	// The page hears later than the app that the app took it.
	p.get(`(window.lost = 0, document.querySelector(".composer textarea").addEventListener("blur", () => lost++), true)`, new(bool))
	app.get(`(window.focus(), document.querySelector("#add").focus(), true)`, new(bool))
	p.until(`lost > 0 && document.hasFocus() && document.activeElement === document.querySelector(".composer textarea")`)
	p.keys("sentence")
	p.until(`document.activeElement.value === "half a sentence"`)
	for range len("half a sentence") {
		p.special("Backspace", 8, "")
	}
	p.until(`document.activeElement.value === ""`)
}

// useTheTerminal runs a command.
func (p *person) useTheTerminal() {
	p.t.Helper()
	p.side("terminal")
	p.until(`document.querySelector(".xterm-rows").textContent.includes("$")`)
	p.clickOn(`document.querySelector(".xterm-screen")`)
	p.keys("echo \"sum: $((40 + 2))\" | tee sum.txt\r")
	p.until(`document.querySelector(".xterm-rows").textContent.includes("sum: 42")`)
	p.waitFor("sum.txt", "sum: 42")
	p.shot("13 terminal")
}

// openTheNotebook sees what the agent ran, in JupyterLab.
func (p *person) openTheNotebook() {
	p.t.Helper()
	p.side("notebook")
	p.until(`document.querySelector("iframe")?.src.includes(".localhost:` + port(p.t, p.s.url) + `/")`)
	lab := p.newTabOf(func() { p.press("In a new tab") })
	lab.until(`location.pathname.startsWith("/lab") && document.querySelector(".jp-DirListing")`)
	lab.open(lab.str("location.origin") + "/lab/tree/notebooks/session.ipynb")
	lab.until(`document.body.innerText.includes("the answer is 42")`)
	lab.shot("14 notebook")
	p.front()
	p.shot("15 notebook in the page")
	// JupyterLab takes the keyboard whenever it has loaded. The page takes it
	// back, but what is typed in between is lost.
	p.side("usage")
}

// side shows one of the tabs at the side.
func (p *person) side(tab string) {
	p.t.Helper()
	e := `document.querySelector("[role=tab][data-tab=` + tab + `]")`
	p.until(e)
	p.clickOn(e)
	p.until(e + `.ariaSelected === "true"`)
}

// answer says something to the agent that asks.
func (p *person) answer(text string) {
	p.t.Helper()
	p.until(`document.querySelector(".composer.asked textarea")`)
	p.clickOn(`document.querySelector(".composer textarea")`)
	p.keys(text)
	p.press("Answer")
	p.until(`document.querySelector(".composer textarea")?.value !== ` + quote(text))
}

// seeTheResult reads what came of it.
func (p *person) seeTheResult() {
	p.t.Helper()
	if st := p.s.finish(p.id); st.Status != glovebox.StatusComplete {
		p.t.Fatalf("got %+v, %+v", st, st.Error)
	}
	p.until(`document.querySelector(".status, .badge, .job-header").innerText.includes("Complete")`)
	p.side("result")
	p.until(`document.querySelector(".result strong")?.innerText === "counts clicks"`)
	p.until(`document.querySelector(".proof-body img")?.naturalWidth === 1280`)
	p.until(`document.querySelector(".result").innerText.includes("all 2 hold")`)
	p.until(`document.querySelector(".plan").innerText.includes("3 of 3")`)
	p.shot("16 result")
}

// scrub goes back in time.
func (p *person) scrub() {
	p.t.Helper()
	p.side("screen")
	p.until(`document.querySelector(".screen-bar .tag").textContent === "Recording"`)
	p.until(`document.querySelector(".screen-frame img")?.naturalWidth === 800`)
	const shown = `document.querySelector(".screen-frame img")?.dataset.picture`
	last := p.str(shown)
	p.shot("17 recording")
	p.get(`(document.querySelector(".scrubber input").focus(), true)`, new(bool))
	p.special("Home", 36, "")
	p.until(`document.querySelector(".scrub-text").innerText.includes("Step 1 of")`)
	p.until(`document.querySelector(".plan").innerText.includes("0 of 3")`)
	seen := map[string]bool{last: true}
	steps := 0
	for p.str(`document.querySelector(".scrubber input").value === document.querySelector(".scrubber input").max`) != "true" {
		p.special("ArrowRight", 39, "")
		steps++
		p.until(`document.querySelector(".scrub-text").innerText.includes("Step " + document.querySelector(".scrubber input").value + " of")`)
		// A picture of another step may still be there while this one's loads.
		p.until(`document.querySelector(".empty") || document.querySelector(".screen-frame img").dataset.picture.endsWith("/" + document.querySelector(".screen-frame").dataset.handle)`)
		seen[p.str(shown)] = true
		if steps == 3 {
			p.shot("18 scrubbed")
		}
	}
	if len(seen) < 3 {
		p.t.Errorf("the recording shows %d pictures in %d steps", len(seen), steps)
	}
	p.special("Home", 36, "")
	p.side("files")
	p.until(`document.querySelector(".tab-panel").innerText.includes("server.mjs")`)
	p.shot("19 files at step 1")
	p.side("terminal")
	p.shot("20 terminal at step 1")
	p.press("To the end")
}

// download takes the project home, and returns what is in it.
func (p *person) download() *zip.Reader {
	p.t.Helper()
	dir := p.t.TempDir()
	_, err := chromedp.CallBrowser(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllowAndName, DownloadPath: dir, EventsEnabled: new(true)})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	progress := chromedp.BrowserEvents(ctx, browser.DownloadProgress)
	p.side("result")
	p.press("Download the project")
	name := ""
	for e, err := range progress {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.State == browser.DownloadProgressStateCompleted {
			name = e.GUID
			break
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	_, header, _ := p.s.call(http.MethodGet, "/jobs/"+p.id+"/artifact.zip", "", "")
	if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != header.Get("X-Content-SHA256") {
		p.t.Errorf("what was downloaded has the SHA-256 %x, the artifact %s", sum, header.Get("X-Content-SHA256"))
	}
	z, err := zip.NewReader(bytes.NewReader(got), int64(len(got)))
	if err != nil {
		p.t.Fatal(err)
	}
	f, err := z.Open("note.txt")
	if err != nil {
		p.t.Fatal(err)
	}
	if note, err := io.ReadAll(f); err != nil || !strings.Contains(string(note), written) {
		p.t.Errorf("the downloaded note is %q, %v", note, err)
	}
	return z
}

// findNotebook looks for the cells of the job in its project.
func (p *person) findNotebook(z *zip.Reader) {
	p.t.Helper()
	f, err := z.Open("notebooks/session.ipynb")
	if err != nil {
		p.t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || !strings.Contains(string(b), "the answer is 42") {
		p.t.Errorf("the downloaded notebook is %.300q, %v", b, err)
	}
}
