package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func load(t *testing.T, file string, env map[string]string, flags map[string]any) (Config, error) {
	t.Helper()
	dir := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if flags == nil {
		flags = map[string]any{}
	}
	flags["data"] = dir
	return Load(Source{Env: func(k string) string { return env[k] }, Flags: flags})
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	c, err := load(t, "model: file:m\nconcurrency: 2\nlog: {level: debug}\nlimits:\n  steps: 10\negress:\n  allow: [a.example]\n  public: false\n",
		map[string]string{"GLOVEBOX_MODEL": "env:m", "GLOVEBOX_CONCURRENCY": "3", "GLOVEBOX_LISTEN": "", "GLOVEBOX_EGRESS_ALLOW": "b.example, c.example", "GLOVEBOX_LIMITS_MEMORY_BYTES": "1073741824"},
		map[string]any{"model": "flag:m", "log.format": "json"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Model != "flag:m" || c.Concurrency != 3 || c.Log.Level != "debug" || c.Log.Format != "json" || c.Listen != "127.0.0.1:8000" {
		t.Errorf("%+v", c)
	}
	if strings.Join(c.Egress.Allow, " ") != "b.example c.example" || c.Egress.Public || !c.Egress.Host {
		t.Errorf("egress %+v", c.Egress)
	}
	if c.Limits.Steps != 10 || c.Limits.MemoryBytes != 1<<30 || c.Limits.Tokens != glovebox.DefaultLimits().Tokens {
		t.Errorf("limits %+v", c.Limits)
	}
	if err := c.Validate("gvisor"); err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		env  map[string]string
		want string
	}{
		{"modell: x\n", nil, "modell"},
		{"log:\n  colour: red\n", nil, "colour"},
		{"concurrency: many\n", nil, "concurrency"},
		{"a: [\n", nil, "not YAML"},
		{"- a\n", nil, "not YAML"},
		{"", map[string]string{"GLOVEBOX_CONCURRENCY": "many"}, "GLOVEBOX_CONCURRENCY"},
		{"", map[string]string{"GLOVEBOX_EGRESS_PUBLIC": "perhaps"}, "GLOVEBOX_EGRESS_PUBLIC"},
		{"", map[string]string{"GLOVEBOX_CONFIG": "/nonexistent/c.yaml"}, "/nonexistent/c.yaml"},
	} {
		if _, err := load(t, c.file, c.env, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v; want one about %s", c.file, c.env, err, c.want)
		}
	}
}

func TestValidateJoinsAllErrors(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Listen, c.Driver, c.Tokens, c.Concurrency, c.Log.Format, c.Log.Level = "8000", "magic", "never", -1, "xml", "loud"
	c.Packages.MaxBytes, c.Limits.Steps, c.AllowedHosts = 1, -1, []string{"https://x"}
	c.Memory.Summaries = "poem"
	err := c.Validate("gvisor")
	for _, field := range []string{"listen", "driver", "tokens", "concurrency", "log.format", "log.level", "packages.max_bytes", "limits.steps", "allowed_hosts[0]", "memory.summaries"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not among: %v", field, err)
		}
	}
	for _, listen := range []string{"", "localhost", "a:b", ":99999", "x/y:1", ":-1", ":00"} {
		c := Default()
		c.Listen = listen
		if c.Validate() == nil {
			t.Errorf("listen %q is accepted", listen)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{"127.0.0.1:0": true, "localhost:80": true, "[::1]:80": true, ":80": false, "0.0.0.0:80": false, "10.0.0.1:80": false} {
		if got := (Config{Listen: listen}).Loopback(); got != want {
			t.Errorf("%s: %v", listen, got)
		}
	}
}

func TestNeedsTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{Config{Listen: "127.0.0.1:8000", Tokens: "auto"}, false},
		{Config{Listen: "127.0.0.1:8000", Tokens: "always"}, true},
		{Config{Listen: ":8000", Tokens: "auto"}, true},
		{Config{Listen: "127.0.0.1:8000", Tokens: "auto", AllowedHosts: []string{"glovebox.example"}}, true}, // behind a proxy
	} {
		if got := c.cfg.NeedsTokens(); got != c.want {
			t.Errorf("%+v: %v", c.cfg, got)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	file := "models:\n- {model: 'chat:*', window: 131072}\n- model: chat:m\n  computer: ''\n  input_price: 1\n  output_price: 2.5\n  images: true\n"
	want := `[{"model":"chat:*","window":131072},{"computer":"","images":true,"input_price":1,"model":"chat:m","output_price":2.5}]`
	c, err := load(t, file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(c Config) string {
		for _, f := range c.Fields() {
			if f.Name == "models" {
				return f.String()
			}
		}
		return ""
	}
	if got := shown(c); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	// What is shown can be given in the environment.
	if c, err = load(t, "models: [{model: 'a:b'}]\n", map[string]string{"GLOVEBOX_MODELS": want}, nil); err != nil || shown(c) != want {
		t.Errorf("from the environment: %s, %v", shown(c), err)
	}
	if got := shown(Default()); got != "[]" {
		t.Errorf("none: %s", got)
	}
	for _, bad := range []string{"models: [{modell: x}]", "models: [{model: a:b, window: wide}]", "models: {model: a:b}", "models: [x]"} {
		if c, err := load(t, bad, nil, nil); err == nil {
			t.Errorf("%s is accepted: %s", bad, shown(c))
		}
	}
	if _, err := load(t, "", map[string]string{"GLOVEBOX_MODELS": "{"}, nil); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_MODELS") {
		t.Error(err)
	}
	c = Default()
	c.Models = make([]Model, MaxModels+1)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "models: ") {
		t.Error(err)
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	for _, f := range Default().Fields() {
		if f.Name == "" || f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: %q", f.Name, f.Doc)
		}
	}
}

func TestPublicAddress(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"": true, "https://example.com": true, "https://example.com/": true, "http://localhost:8000/a/b/": true, "https://[::1]:1/x": true,
		"example.com": false, "ftp://example.com": false, "https://": false, "https://u@example.com": false, "https://example.com?x": false, "https://example.com/#x": false, "https://example.com/../x": false, "https://example.com//x": false,
	} {
		c := Default()
		c.PublicURL = s
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("public_url %q: %v", s, err)
		}
	}
	for s, want := range map[string]bool{
		"": true, "preview.example.com": true, "localhost": true, "preview.example.com:8443": true,
		"https://x": false, "x/y": false, "a..b": false, ".x": false, "127.0.0.1": false, "x:0": false, "x:y": false, "*.x": false, "[::1]": false,
	} {
		c := Default()
		c.PreviewDomain = s
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("preview_domain %q: %v", s, err)
		}
	}
	for e, want := range map[Embeddings]bool{
		{}: true, {"http://localhost:11434/v1", "m"}: true, {"https://example.com", "m"}: true,
		{"http://localhost", ""}: false, {"", "m"}: false, {"ftp://x", "m"}: false, {"https://u:p@example.com", "m"}: false, {"localhost", "m"}: false,
	} {
		c := Default()
		c.Memory.Embeddings = e
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("memory.embeddings %+v: %v", e, err)
		}
	}
	for s, want := range map[string]bool{"": false, "http://localhost:8000/x": false, "http://127.0.0.1": false, "https://example.com": true} {
		c := Default()
		c.PublicURL = s
		if c.NeedsTokens() != want {
			t.Errorf("public_url %q: tokens %v", s, !want)
		}
	}
}
