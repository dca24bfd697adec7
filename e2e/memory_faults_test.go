package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
)

// scene is a job that something happens to which a window can't take.
type scene struct {
	id   string // of its job
	name string // its task begins with "Scene NAME."

	events chan told     // what the test is to do
	over   chan struct{} // closed when the job has ended

	mu sync.Mutex // held while a request is answered: that of a call that was stopped may still be
	actor
	untold []chan struct{} // of what was told since it was last waited for

	look      func(s llmtest.Sent) // at every request; may be nil
	act       func(c *scene, s llmtest.Sent, results []string) llmtest.Answer
	summarize func(c *scene, n int) string // the answer to a request for n summaries; nil for good ones
	refuse    func(c *scene, s llmtest.Sent) bool
	check     func(t *testing.T, c *scene, st status, log []glovebox.Event)

	summaries int
	refused   int
	most      struct{ images, blocks int } // of a request
}

// told is what a scene has the test do: a message of the user's, or "model NAME"
// for another model.
type told struct {
	what string
	done chan struct{} // closed when the server has it
}

// tell has the test do something, beside what the job does.
func (c *scene) tell(what string) {
	done := make(chan struct{})
	c.untold = append(c.untold, done)
	c.events <- told{what, done}
}

// settle waits until the server has what was told. What it has takes effect
// before the next request to the model; without this the job could be over by
// then, or the next wish be there.
func (c *scene) settle() {
	for _, done := range c.untold {
		select {
		case <-done:
		case <-c.over:
		}
	}
	c.untold = nil
}

// stage has the scenes on a server of each provider.
type stage struct {
	scenes []*scene
}

// reply answers a request as the scene that it is of wants it.
func (g *stage) reply(s llmtest.Sent) llmtest.Answer {
	first := llmtest.Text(s.Messages[0])
	for _, c := range g.scenes {
		if strings.Contains(first, c.task()) {
			return c.reply(s)
		}
	}
	return llmtest.Answer{Fault: llmtest.Fault{Kind: llmtest.Refuse, Status: 400, Code: "invalid_request_error", Message: "which scene is that?"}}
}

func (c *scene) task() string {
	return "Scene " + c.name + ". Play it to its end <as it is written> & \"word for word\"."
}

func (c *scene) reply(s llmtest.Sent) llmtest.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.look != nil {
		c.look(s)
	}
	images, blocks := 0, 0
	for _, m := range s.Messages {
		for _, b := range m.Blocks {
			blocks++
			for _, x := range append(b.Content, b) {
				if x.Type == glovebox.BlockImage {
					images++
				}
			}
		}
	}
	c.most.images, c.most.blocks = max(c.most.images, images), max(c.most.blocks, blocks)
	if c.refuse != nil && c.refuse(c, s) {
		c.refused++
		return llmtest.Answer{Fault: llmtest.Fault{Kind: llmtest.Refuse, Status: 400, Code: "invalid_request_error", Message: fmt.Sprintf("prompt is too long: %d tokens > 1 maximum", s.Tokens)}}
	}
	if spans := spansAsked(s); spans != nil {
		c.summaries++
		var text string
		if c.summarize != nil {
			text = c.summarize(c, len(spans))
		} else {
			text = summaryText(len(spans), "The scene was played on, word for word, as it is written.")
		}
		return llmtest.Answer{Blocks: []glovebox.Block{{Type: glovebox.BlockReasoning, Text: fmt.Sprintf("Summaries, for the %d. time.", c.summaries)}, glovebox.Text(text)}}
	}
	return c.turn(s, func(results []string) llmtest.Answer { return c.act(c, s, results) })
}

func summaryText(n int, line string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"span":%d,"done":[%q]}`, i+1, line))
	}
	return `{"summaries":[` + strings.Join(list, ",") + `]}`
}

// prints is a call that prints about 15 KB that hardly compress.
func (c *scene) prints(n int) glovebox.Block {
	return call("shell", obj{"command": fmt.Sprintf("seq -f 'entry %%.0f of scene %s' %d %d", c.name, n*1000, n*1000+500)})
}

// TestMemoryFaults has a window's worth of trouble, in several jobs at once.
// GLOVEBOX_E2E_SCENES names those to play, e.g. "tiny,switch"; all if empty.
func TestMemoryFaults(t *testing.T) {
	data := dataDir(t)
	g := &stage{scenes: []*scene{tinyScene(), giantScene(), refusedScene(), neverScene(), imagesScene(), badScene(), foreignScene(), switchScene(), hurryScene()}}
	if only := os.Getenv("GLOVEBOX_E2E_SCENES"); only != "" {
		g.scenes = slices.DeleteFunc(g.scenes, func(c *scene) bool { return !slices.Contains(strings.Split(only, ","), c.name) })
	}
	models := "[" +
		"{model: 'anthropic:*', window: 60000, max_output: 4000, reasoning: true, images: true}, {model: 'openai:*', window: 60000, max_output: 4000, reasoning: true, images: true}," +
		"{model: 'gemini:*', window: 60000, max_output: 4000, reasoning: true, images: true}, {model: 'chat:*', window: 60000, max_output: 4000}]"
	env := []string{"GLOVEBOX_MODELS=" + models, "GLOVEBOX_TEMPLATES=false"}
	servers := map[llmtest.API]*llmtest.Server{}
	for _, p := range []struct {
		api  llmtest.API
		name string
	}{{llmtest.Anthropic, "ANTHROPIC"}, {llmtest.OpenAI, "OPENAI"}, {llmtest.Gemini, "GEMINI"}, {llmtest.Chat, "CHAT"}} {
		servers[p.api] = llmtest.NewScripted(t, p.api, 60_000, g.reply)
		env = append(env, p.name+"_API_KEY="+llmtest.Key, p.name+"_BASE_URL="+servers[p.api].URL)
	}
	s := serveWith(t, nil, env, data, "--model", "anthropic:scripted", "--concurrency", "4")
	var playing sync.WaitGroup
	for _, c := range g.scenes {
		c.events, c.over = make(chan told, 64), make(chan struct{})
		c.id = s.scheduleWith(c.task(), `{"limits":{"steps":200}}`, pictures(t))
		playing.Go(func() { c.play(s) })
	}
	playing.Wait()
	for _, c := range g.scenes {
		t.Run(c.name, func(t *testing.T) {
			here := *s
			here.t = t
			id, st := c.id, here.status(c.id)
			checkLaws(t, &here, id)
			log := here.events(id)
			t.Cleanup(func() {
				if t.Failed() {
					logMemory(t, log)
				}
			})
			made, folds := foldsOf(t, log)
			checkTree(t, made)
			t.Logf("%s after %d answers and %d calls: %d folds, %d summaries in %d requests, %d refusals, at most %d blocks and %d images in a request",
				st.Status, c.step, c.called, folds, len(made), c.summaries, c.refused, c.most.blocks, c.most.images)
			if c.check != nil {
				c.check(t, c, st, log)
			} else if st.Status != glovebox.StatusComplete {
				t.Errorf("%+v, %+v", st, st.Error)
			}
		})
	}
}

// logMemory logs what a job's memory did.
func logMemory(t *testing.T, log []glovebox.Event) {
	t.Helper()
	for _, e := range log {
		switch e.Type {
		case glovebox.EventSummaries, glovebox.EventSummarized, glovebox.EventFolded, glovebox.EventModelChanged, glovebox.EventModelFailed:
			t.Logf("%4d %-18s %.400s", e.Seq, e.Type, e.Data)
		}
	}
}

// play waits until a job has ended, and does what its scene asks for.
func (c *scene) play(s *server) {
	go func() {
		defer close(c.over)
		s.follow(c.id, func(e glovebox.Event) bool { return e.Type != glovebox.EventFinished })
	}()
	for {
		select {
		case e := <-c.events:
			path, kind, body := "/messages", "text/plain", e.what
			if model, ok := strings.CutPrefix(e.what, "model "); ok {
				path, kind, body = "/model", "application/json", fmt.Sprintf(`{"model":%q}`, model)
			}
			if code, _, answer := s.call(http.MethodPost, "/jobs/"+c.id+path, kind, body); code/100 != 2 {
				s.t.Errorf("%.40s: %d %s", e.what, code, answer)
			}
			close(e.done)
		case <-c.over:
			return
		}
	}
}

// foldsOf returns the summaries that a log has, and how often history was folded.
func foldsOf(t *testing.T, log []glovebox.Event) (made map[glovebox.Span]glovebox.SummaryBy, folds int) {
	t.Helper()
	made = map[glovebox.Span]glovebox.SummaryBy{}
	for _, e := range log {
		switch e.Type {
		case glovebox.EventFolded:
			folds++
		case glovebox.EventSummarized:
			for _, s := range decode[glovebox.Summarized](t, e).Summaries {
				if made[s.Span] != "" {
					t.Errorf("%+v was summarized twice", s.Span)
				}
				made[s.Span] = s.By
			}
		}
	}
	return made, folds
}

// tinyScene has a thousand tiny calls.
func tinyScene() *scene {
	return &scene{name: "tiny", act: func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
		if c.step > 50 {
			return c.finish()
		}
		var calls []glovebox.Block
		for i := range 20 {
			line := 20*c.step + i
			calls = append(calls, call("read_file", obj{"path": "lines.txt", "start_line": line, "end_line": line}))
		}
		return c.do("Twenty at once.", calls...)
	}}
}

// giantScene has observations of far more than a window, and a user who pastes
// 5 MB.
func giantScene() *scene {
	pasted := false
	return &scene{name: "giant", look: func(s llmtest.Sent) {
		pasted = pasted || slices.ContainsFunc(s.Messages, func(m glovebox.Message) bool {
			return m.Role == glovebox.RoleUser && strings.Contains(llmtest.Text(m), "The user pastes this line")
		})
	}, act: func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
		switch c.step {
		case 1:
			return c.do("I print a lot.", call("shell", obj{"command": "seq 1 200000"}), call("shell", obj{"command": "seq 200000 | tr -d '\\n'"}))
		case 2:
			c.tell(strings.Repeat("The user pastes this line again and again.\n", 5<<20/43))
			return c.do("And more of it.", c.prints(1), c.prints(2), c.prints(3), c.prints(4), c.prints(5), c.prints(6), c.prints(7), c.prints(8))
		}
		if c.step == 11 {
			c.settle()
		}
		if c.step < 13 {
			return c.do("On.", c.prints(c.step))
		}
		return c.finish()
	}, check: func(t *testing.T, _ *scene, st status, _ []glovebox.Event) {
		t.Helper()
		if st.Status != glovebox.StatusComplete || !pasted {
			t.Errorf("%+v, %+v; the paste was seen: %v", st, st.Error, pasted)
		}
	}}
}

// refusedScene has a model whose window is half of what is known of it.
func refusedScene() *scene {
	return &scene{name: "refused",
		refuse: func(_ *scene, s llmtest.Sent) bool { return s.Tokens > 28_000 },
		act:    printsUntil(40),
		check: func(t *testing.T, c *scene, st status, log []glovebox.Event) {
			t.Helper()
			if reasons := foldReasons(t, log); st.Status != glovebox.StatusComplete || reasons[glovebox.FoldRefused] == 0 || reasons[glovebox.FoldFull] == 0 || c.refused > 3 {
				t.Errorf("after %d refusals: %+v, %+v; folds %v", c.refused, st, st.Error, reasons)
			}
		}}
}

// neverScene has a model that finds every request too long from some step on.
func neverScene() *scene {
	return &scene{name: "never",
		refuse: func(c *scene, _ llmtest.Sent) bool { return c.step >= 6 },
		act: func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
			return c.do("On.", c.prints(c.step))
		},
		check: func(t *testing.T, c *scene, st status, log []glovebox.Event) {
			t.Helper()
			reasons := foldReasons(t, log)
			if st.Status != glovebox.StatusError || st.Error == nil || st.Error.Code != "context" || st.Error.Hint == "" || reasons[glovebox.FoldRefused] > 2 || c.refused > 3 {
				t.Errorf("after %d refusals: %+v, %+v; folds %v", c.refused, st, st.Error, reasons)
			}
		}}
}

// imagesScene looks at nothing but pictures.
func imagesScene() *scene {
	return &scene{name: "images", act: func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
		if c.step > 40 {
			return c.finish()
		}
		return c.do("", call("read_file", obj{"path": fmt.Sprintf("picture%d.png", c.step%4)}), call("read_file", obj{"path": fmt.Sprintf("picture%d.png", (c.step+1)%4)}))
	}, check: func(t *testing.T, c *scene, st status, log []glovebox.Event) {
		t.Helper()
		if reasons := foldReasons(t, log); st.Status != glovebox.StatusComplete || len(reasons) == 0 || c.most.images < 3 {
			t.Errorf("%+v, %+v; folds %v; at most %d images", st, st.Error, reasons, c.most.images)
		}
	}}
}

// badScene has a model that never writes a summary that can be used.
func badScene() *scene {
	bad := []string{"", "   \n ", `{"summaries":[]}`, "no", strings.Repeat("{", 100_000), `{"summaries":[{"span":1,"done":["` + strings.Repeat("scene played written ", 50) + strings.Repeat(`","`+strings.Repeat("scene played written ", 50), 30) + `"]}]}`}
	return &scene{name: "bad",
		summarize: func(c *scene, _ int) string { return bad[c.summaries%len(bad)] + " " },
		act:       printsUntil(30),
		check:     digestsOnly,
	}
}

// foreignScene has one that writes of something else, in another language.
func foreignScene() *scene {
	return &scene{name: "foreign",
		summarize: func(c *scene, n int) string {
			return summaryText(n, []string{"Die Vorstellung wurde abgebrochen, weil niemand erschienen war.", "全部の作業は終わりました。何もすることはありません。"}[c.summaries%2])
		},
		act:   printsUntil(30),
		check: digestsOnly,
	}
}

func printsUntil(step int) func(*scene, llmtest.Sent, []string) llmtest.Answer {
	return func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
		if c.step > step {
			return c.finish()
		}
		return c.do("On.", c.prints(c.step))
	}
}

func digestsOnly(t *testing.T, c *scene, st status, log []glovebox.Event) {
	t.Helper()
	made, folds := foldsOf(t, log)
	for s, by := range made {
		if by != glovebox.SummaryByDigest {
			t.Errorf("%+v is by the %s", s, by)
		}
	}
	if st.Status != glovebox.StatusComplete || folds == 0 || len(made) == 0 || c.summaries == 0 {
		t.Errorf("%+v, %+v; %d folds, %d summaries in %d requests", st, st.Error, folds, len(made), c.summaries)
	}
}

// switchScene goes from provider to provider, and back to the first.
func switchScene() *scene {
	order := []string{"openai:scripted", "gemini:gemini-3-scripted", "chat:scripted", "gemini:gemini-4-scripted", "anthropic:scripted", "anthropic:another"}
	heard := []llmtest.API{llmtest.Anthropic}
	return &scene{name: "switch", act: func(c *scene, s llmtest.Sent, _ []string) llmtest.Answer {
		if s.API != heard[len(heard)-1] {
			heard = append(heard, s.API)
		}
		if c.step%5 == 0 && c.step/5 <= len(order) {
			c.tell("model " + order[c.step/5-1])
		}
		if c.step%5 == 2 { // beside two answers, and what they call, it may come when it likes
			c.settle()
		}
		if c.step >= 5*len(order)+8 {
			return c.finish()
		}
		return c.do("On.", c.prints(c.step), call("shell", obj{"command": "sleep 0.2"}))
	}, check: func(t *testing.T, c *scene, st status, log []glovebox.Event) {
		t.Helper()
		want := []llmtest.API{llmtest.Anthropic, llmtest.OpenAI, llmtest.Gemini, llmtest.Chat, llmtest.Gemini, llmtest.Anthropic}
		if reasons := foldReasons(t, log); st.Status != glovebox.StatusComplete || fmt.Sprint(heard) != fmt.Sprint(want) || reasons[glovebox.FoldModel] != len(order) {
			t.Errorf("%+v, %+v; providers %v; folds %v", st, st.Error, heard, reasons)
		}
	}}
}

// hurryScene changes its model again and again, and before the change before
// took effect.
func hurryScene() *scene {
	models := []string{"openai:scripted", "chat:scripted", "gemini:gemini-3-scripted", "anthropic:another", "openai:another", "anthropic:scripted"}
	return &scene{name: "hurry", act: func(c *scene, _ llmtest.Sent, _ []string) llmtest.Answer {
		if c.step > 45 {
			c.settle()
			return c.finish()
		}
		if c.step%3 == 0 {
			for i := range 1 + c.step%2 {
				c.tell("model " + models[(c.step/3+i)%len(models)])
			}
		}
		return c.do("On.", c.prints(c.step))
	}}
}

func foldReasons(t *testing.T, log []glovebox.Event) map[glovebox.FoldReason]int {
	t.Helper()
	reasons := map[glovebox.FoldReason]int{}
	for _, e := range log {
		if e.Type == glovebox.EventFolded {
			reasons[decode[glovebox.Folded](t, e).Reason]++
		}
	}
	return reasons
}

// pictures is an archive of pictures that hardly compress.
func pictures(t *testing.T) []byte {
	t.Helper()
	files := map[string]string{}
	for i := range 2000 {
		files["lines.txt"] += fmt.Sprintf("line %d\n", i+1)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 4 {
		img := image.NewRGBA(image.Rect(0, 0, 320, 240))
		for y := range 240 {
			for x := range 320 {
				img.Set(x, y, color.RGBA{uint8(rng.Uint32()), uint8(x), uint8(y), 255})
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("picture%d.png", i)] = b.String()
	}
	return zipped(t, files)
}
