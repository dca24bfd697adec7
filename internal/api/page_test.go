package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
)

const asBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestBrowsersGetThePageAndProgramsTheText(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for accept, want := range map[string]string{asBrowser: "text/html; charset=utf-8", "*/*": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8", "application/json": "application/json"} {
		r := e.do("GET", "/", "", "Accept", accept)
		if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || got != want {
			t.Errorf("Accept %q: %d %q, want %q", accept, r.StatusCode, got, want)
		}
		if !strings.Contains(strings.Join(r.Header.Values("Vary"), ", "), "Accept") {
			t.Errorf("Accept %q: Vary %q", accept, r.Header.Values("Vary"))
		}
	}
	page := e.do("GET", "/", "", "Accept", asBrowser)
	csp := page.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe") || page.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("policy %q, X-Frame-Options %q", csp, page.Header.Get("X-Frame-Options"))
	}
	script := regexp.MustCompile(`src="\./(assets/[^"]+\.js)"`).FindSubmatch(page.body)
	if script == nil {
		t.Fatalf("no script in %s", page.body)
	}
	r := e.do("GET", "/"+string(script[1]), "")
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/javascript") || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("the script: %d %q %q", r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Cache-Control"))
	}
	if r := e.do("GET", "/assets/none.js", ""); r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a file that is not there: %d %q", r.StatusCode, r.Header.Get("Content-Type"))
	}
}

// The page itself asks for no token, and neither it nor its files are served
// under a name that was rebound to this address.
func TestPageIsOpenAndItsHostIsChecked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.RequireTokens, o.AllowedHosts = true, []string{"glovebox.example"} })
	if r := e.do("GET", "/", "", "Accept", asBrowser); r.StatusCode != http.StatusOK {
		t.Errorf("the page without a token: %d", r.StatusCode)
	}
	if r := e.do("GET", "/settings", ""); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the settings without a token: %d", r.StatusCode)
	}
	req := e.request("GET", "/", nil, "Accept", asBrowser)
	req.Host = "rebound.example"
	if r := e.send(req); r.StatusCode != http.StatusForbidden {
		t.Errorf("under a foreign name: %d", r.StatusCode)
	}
}

func TestPageFramesPreviewsAlone(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{"": "frame-src 'self' http://*.localhost:*;", "preview.example:8443": "frame-src 'self' *.preview.example:8443;"} {
		e := newEnv(t, func(o *Options) { o.PreviewDomain = domain })
		if csp := e.do("GET", "/", "", "Accept", asBrowser).Header.Get("Content-Security-Policy"); !strings.Contains(csp, want) {
			t.Errorf("domain %q: %q has no %q", domain, csp, want)
		}
	}
}

func TestSettingsSayWhatAJobWillBe(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.DefaultModel, o.MaxArchive = "fake:m", 1234 })
	var s settings
	if err := json.Unmarshal(e.do("GET", "/settings", "").body, &s); err != nil {
		t.Fatal(err)
	}
	if s.DefaultModel != "fake:m" || s.NeedsModel || s.MaxArchiveBytes != 1234 || s.MaxTaskBytes != glovebox.MaxTask || s.MaxMessageBytes != glovebox.MaxUserText || s.DefaultLimits.Steps == 0 {
		t.Errorf("got %+v", s)
	}
}

// TestNoModelIsSaidBeforeTheJob: where no model is configured, the page can
// say so, and a job that names none is refused; where workers elsewhere may
// have one, it is taken.
func TestNoModelIsSaidBeforeTheJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		check  func(string) error
		needs  bool
		status int
	}{
		"none here": {func(m string) error {
			_, _, err := resolve.Options{}.Resolve(m, func(string) string { return "" })
			return err
		}, true, 400},
		"some elsewhere": {func(string) error { return nil }, false, 202},
		"no check":       {nil, false, 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(o *Options) { o.DefaultModel, o.CheckModel = "", tt.check })
			var s settings
			if err := json.Unmarshal(e.do("GET", "/settings", "").body, &s); err != nil || s.NeedsModel != tt.needs {
				t.Errorf("settings: %+v, %v", s, err)
			}
			r := e.do("POST", "/schedule", "Say hello.", "Content-Type", "text/plain")
			if r.StatusCode != tt.status {
				t.Fatalf("%d: %s", r.StatusCode, r.body)
			}
			if tt.status == 202 {
				return
			}
			var p glovebox.Problem
			if err := json.Unmarshal(r.body, &p); err != nil || p.Code != glovebox.CodeInvalid || p.Field != "model" {
				t.Errorf("got %+v, %v", p, err)
			}
			for _, way := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "chat:", "replay:"} {
				if !strings.Contains(p.Hint, way) {
					t.Errorf("the hint does not name %s: %s", way, p.Hint)
				}
			}
			var jobs glovebox.JobList
			if err := json.Unmarshal(e.do("GET", "/jobs", "").body, &jobs); err != nil || len(jobs.Jobs) > 0 {
				t.Errorf("a refused job is there: %+v, %v", jobs, err)
			}
		})
	}
}
