package resolve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func envOf(vars map[string]string) Env {
	return func(name string) string { return vars[name] }
}

// TestResolveReaches checks that each provider is called at the address of
// the environment, with its key, also below a path.
func TestResolveReaches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, header, value string
		vars                      map[string]string
	}{
		{"anthropic:claude-sonnet-5-5", "/gw/v1/messages", "X-Api-Key", "k1", map[string]string{"ANTHROPIC_API_KEY": "k1", "ANTHROPIC_BASE_URL": "$/gw"}},
		{"openai:gpt-6.1-sol", "/gw/responses", "Authorization", "Bearer k2", map[string]string{"OPENAI_API_KEY": " k2\n", "OPENAI_BASE_URL": "$/gw"}},
		{"gemini:gemini-4-argon", "/gw/v1beta/models/gemini-4-argon:streamGenerateContent", "X-Goog-Api-Key", "k3", map[string]string{"GOOGLE_API_KEY": "k3", "GOOGLE_GEMINI_BASE_URL": "$/gw"}},
		{"gemini:gemini-4-argon", "/v1beta/models/gemini-4-argon:streamGenerateContent", "X-Goog-Api-Key", "k4", map[string]string{"GEMINI_API_KEY": "k4", "GOOGLE_API_KEY": "no", "GEMINI_BASE_URL": "$"}},
		{"chat:llama3.3:70b", "/gw/v1/chat/completions", "Authorization", "", map[string]string{"CHAT_BASE_URL": "$/gw/v1", "OPENAI_API_KEY": "no"}},
		{"chat:m", "/v1/chat/completions", "Authorization", "Bearer k5", map[string]string{"CHAT_BASE_URL": "$/v1/", "CHAT_API_KEY": "k5"}},
	} {
		t.Run(c.name+c.path, func(t *testing.T) {
			t.Parallel()
			var got string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = fmt.Sprintf("%s %q", r.URL.Path, r.Header.Get(c.header))
				w.WriteHeader(http.StatusTeapot)
			}))
			defer s.Close()
			for k, v := range c.vars {
				c.vars[k] = strings.Replace(v, "$", s.URL, 1)
			}
			m, info, err := Options{HTTP: s.Client()}.Resolve(c.name, envOf(c.vars))
			if err != nil {
				t.Fatal(err)
			}
			if info.Provider+":"+info.Name != c.name {
				t.Errorf("info %+v", info)
			}
			r := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("hi")}}}}
			_, err = m.Stream(t.Context(), r, nil)
			if want := fmt.Sprintf("%s %q", c.path, c.value); got != want {
				t.Errorf("called %s, want %s (%v)", got, want, err)
			}
		})
	}
}

func TestResolveErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		vars map[string]string
		want string
	}{
		{"", nil, Hint},
		{"gpt-5", nil, "anthropic, chat, gemini, openai or replay"},
		{"openai:", nil, "is not the name of a model"},
		{"mistral:large", nil, `"mistral:large" is not the name of a model`},
		{"openai:x\x00", nil, "not plain text"},
		{"openai:" + strings.Repeat("x", MaxName), nil, "longer than"},
		{"openai:gpt-5", nil, "OPENAI_API_KEY is not set"},
		{"gemini:gemini-4-argon", nil, "GEMINI_API_KEY or GOOGLE_API_KEY is not set"},
		{"chat:x", map[string]string{"CHAT_BASE_URL": "localhost:11434"}, "CHAT_BASE_URL: the value is not an http"},
		{"chat:x", map[string]string{"GLOVEBOX_MODEL_STALL": "5"}, "GLOVEBOX_MODEL_STALL"},
		{"replay:/no/such/file", nil, "no such file"},
		{"replay:/etc/passwd", nil, "passwd:1:"},
		{"replay:x", map[string]string{"GLOVEBOX_REPLAY_PACE": "fast"}, "GLOVEBOX_REPLAY_PACE"},
	} {
		_, _, err := Options{}.Resolve(c.name, envOf(c.vars))
		if glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Resolve(%.40q) = %v, want %q", c.name, err, c.want)
		}
	}
	_, _, err := Options{}.Resolve("anthropic:claude-opus-5-5", envOf(nil))
	for _, way := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "chat:", "CHAT_BASE_URL", "replay:FILE"} {
		if err == nil || !strings.Contains(err.Error(), way) {
			t.Errorf("%v does not name %s", err, way)
		}
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vars map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"GLOVEBOX_MODEL": "replay:x", "ANTHROPIC_API_KEY": "k"}, "replay:x"},
		{map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic:claude-sonnet-5-5"},
		{map[string]string{"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, "openai:gpt-6.1-sol"},
		{map[string]string{"GOOGLE_API_KEY": "k"}, "gemini:gemini-4-argon"},
		{map[string]string{"CHAT_BASE_URL": "http://x"}, ""},
	} {
		if got := Default(envOf(c.vars)); got != c.want {
			t.Errorf("Default(%v) = %q, want %q", c.vars, got, c.want)
		}
	}
	for _, d := range defaults {
		if !llm.Lookup(d.kind, d.model).Priced {
			t.Errorf("the default %s:%s has no price", d.kind, d.model)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret.replay")
	for _, p := range []string{filepath.Join(dir, "a.replay"), outside} {
		if err := os.WriteFile(p, []byte("model window=5000\nturn\ntext hi\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{ReplayDir: dir}
	for _, name := range []string{"replay:a.replay", "replay:./a.replay", "replay:" + filepath.Join(dir, "a.replay")} {
		m, info, err := o.Resolve(name, envOf(nil))
		if err != nil || m == nil || info.Window != 5000 {
			t.Errorf("%s: %+v %v", name, info, err)
		}
	}
	for _, name := range []string{"replay:" + outside, "replay:../secret.replay", "replay:link", "replay:pipe", "replay:.", "replay:none"} {
		_, _, err := o.Resolve(name, envOf(nil))
		if glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := (Options{ReplayDir: filepath.Join(dir, "none")}).Resolve("replay:a.replay", envOf(nil)); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("where there is no directory: %v", err)
	}
	if _, _, err := (Options{}).Resolve("replay:"+outside, envOf(nil)); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}
