// Package resolve finds the model that a name stands for.
//
// A name is "provider:model", such as "anthropic:claude-sonnet-5-5",
// "chat:llama3.3:70b" or "replay:examples/todo.replay". Keys and addresses
// come from the environment, under the names that the providers' own tools
// use.
package resolve

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/replay"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// MaxName is the most bytes that the name of a model may have.
const MaxName = 1024

// Env looks up a variable of the environment; "" means not set.
type Env func(name string) string

// Options are what the environment does not say. The zero Options are fine.
type Options struct {
	Overrides []llm.Override // of what is assumed of models
	HTTP      *http.Client   // nil: http.DefaultClient

	// ReplayDir, if not empty, is the directory that all replay files must be
	// in, and relative ones are relative to. A server sets it, so that a name
	// given by a client can't open any other file.
	ReplayDir string
}

// provider is how a model of one provider is found.
type provider struct {
	keys    []string // variables that may hold the key, the first that is set counts
	keyless bool     // a key is welcome but not needed
	urls    []string // variables that may hold the address
	url     string   // the address if none is set; "" is the provider's own
	first   time.Duration
	open    func(wire.Config) llm.Model
}

// Resolve returns the model called name, with what is known about it. The
// error is a [glovebox.Error] that says what to do.
func (o Options) Resolve(name string, env Env) (llm.Model, llm.Info, error) {
	kind, model, err := Split(name)
	if err != nil {
		return nil, llm.Info{}, err
	}
	if kind == "replay" {
		return o.replay(model, env)
	}
	p := providers[kind]
	c := wire.Config{Info: llm.Lookup(kind, model, o.Overrides...), HTTP: o.HTTP, FirstStall: p.first}
	_, c.APIKey = first(env, p.keys)
	if c.APIKey == "" && !p.keyless {
		return nil, llm.Info{}, noKey("there is no key for " + strconv.Quote(name) + ": " + strings.Join(p.keys, " or ") + " is not set")
	}
	if c.BaseURL, err = address(p, env); err != nil {
		return nil, llm.Info{}, err
	}
	if c.Stall, err = stall(env); err != nil {
		return nil, llm.Info{}, err
	}
	if c.Stall > 0 {
		c.FirstStall = c.Stall
	}
	return p.open(c), c.Info, nil
}

// Split takes the name of a model apart. The error says which providers there
// are.
func Split(name string) (kind, model string, err error) {
	if len(name) > MaxName || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return "", "", glovebox.Invalid("model", "write provider:model", "the name is longer than %d bytes or is not plain text", MaxName)
	}
	if name == "" {
		return "", "", noKey("no model is named")
	}
	kind, model, _ = strings.Cut(name, ":")
	if _, ok := providers[kind]; (!ok && kind != "replay") || model == "" {
		return "", "", glovebox.Invalid("model", "write provider:model, where the provider is "+kinds(), "%q is not the name of a model", name)
	}
	return kind, model, nil
}

func kinds() string {
	names := append(slices.Sorted(maps.Keys(providers)), "replay")
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Default returns the model to use where none is named: GLOVEBOX_MODEL, else
// one of the provider whose key is set, else "".
func Default(env Env) string {
	if m := env("GLOVEBOX_MODEL"); m != "" {
		return m
	}
	for _, d := range defaults {
		if p, ok := providers[d.kind]; ok {
			if _, key := first(env, p.keys); key != "" {
				return d.kind + ":" + d.model
			}
		}
	}
	return ""
}

// defaults are the models used for the keys that are there, in this order:
// those in the middle of each provider's range, good at writing programs.
var defaults = []struct{ kind, model string }{
	{"anthropic", "claude-sonnet-5-5"},
	{"openai", "gpt-6.1-sol"},
	{"gemini", "gemini-4-argon"},
}

// Hint says how to give a model, for messages.
const Hint = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY; or name a model of a server of your own, chat:MODEL with CHAT_BASE_URL; or play a recording, replay:FILE"

func noKey(msg string) error {
	return &glovebox.Error{Code: glovebox.CodeInvalid, Field: "model", Msg: msg, Hint: Hint}
}

// first returns the first of the variables that is set, and its value.
func first(env Env, names []string) (name, value string) {
	for _, n := range names {
		if v := strings.TrimSpace(env(n)); v != "" {
			return n, v
		}
	}
	return "", ""
}

func address(p provider, env Env) (string, error) {
	name, value := first(env, p.urls)
	if value == "" {
		return p.url, nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
		return "", glovebox.Invalid(name, "write an address such as https://host/v1", "the value is not an http or https address")
	}
	return value, nil
}

// stall reads how long a server may be silent.
func stall(env Env) (time.Duration, error) {
	v := env("GLOVEBOX_MODEL_STALL")
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0, glovebox.Invalid("GLOVEBOX_MODEL_STALL", "write a time such as 120s, at least 1s", "%q is no time that a model may be silent", v)
	}
	return d, nil
}

// replay opens a recording. GLOVEBOX_REPLAY_PACE stretches its delays; they
// are left out if it is not set.
func (o Options) replay(path string, env Env) (llm.Model, llm.Info, error) {
	var opt replay.Options
	if v := env("GLOVEBOX_REPLAY_PACE"); v != "" {
		pace, err := strconv.ParseFloat(v, 64)
		if err != nil || !(pace >= 0 && pace <= 100) {
			return nil, llm.Info{}, glovebox.Invalid("GLOVEBOX_REPLAY_PACE", "write a number from 0 (no delays) to 100; 1 is as recorded", "%q is no pace", v)
		}
		opt.Pace = pace
	}
	s, err := o.script(path)
	if err != nil {
		return nil, llm.Info{}, err
	}
	return replay.New(s, opt), s.Info(), nil
}

func (o Options) script(path string) (*replay.Script, error) {
	if o.ReplayDir == "" {
		return replay.Load(path)
	}
	dir, err := filepath.Abs(o.ReplayDir)
	if err != nil {
		return nil, err
	}
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(dir, path); err != nil {
			return nil, outside()
		}
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, glovebox.Invalid("model", "with tokens, recordings are those in the directory "+filepath.Base(dir)+" of the server's data directory: put the file there, and name it replay:FILE", "this server has no recordings")
	}
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open replays", Err: err}
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, glovebox.Invalid("model", "see which recordings the server has", "there is no recording %q", path)
	}
	if err != nil {
		return nil, outside()
	}
	defer f.Close()
	return replay.Read(path, f)
}

func outside() error {
	return glovebox.Invalid("model", "name a file in the directory of recordings", "the file can't be opened from the directory of recordings")
}
