// Package config is the configuration of a server: from its defaults, a file,
// the environment and flags, each overriding the one before.
//
// The file is YAML, config.yaml in the data directory unless --config or
// GLOVEBOX_CONFIG names another. A setting such as log.format is the variable
// GLOVEBOX_LOG_FORMAT in the environment; lists are separated by commas there.
// An empty variable counts as not set. A field that does not exist is an
// error. Keys of model providers are not part of the configuration: they
// come from the environment alone.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Config is all that can be set of a server. The tag doc says what a field
// means, with its unit and special values.
type Config struct {
	Data          string          `json:"data" doc:"Directory for everything that is kept: jobs, artifacts, machine images, sandboxes, packages."`
	Listen        string          `json:"listen" doc:"Address of the HTTP API, host:port; port 0 takes a free one. Beyond loopback it needs tokens."`
	AllowedHosts  []string        `json:"allowed_hosts" doc:"Host names by which the API may be addressed, beside loopback ones. Empty: with tokens any, without none."`
	PublicURL     string          `json:"public_url" doc:"Address under which people reach the server through a proxy, such as https://example.com/glovebox; requests with its path prefix are taken too. Empty: the one that it listens on. Beyond this machine it needs tokens."`
	PreviewDomain string          `json:"preview_domain" doc:"Domain, with a port if it is not the usual one, whose subdomains all lead to the server: what a job's machine serves is shown on an origin of its own below it. Best one that nothing else uses. Empty: below localhost for who uses the server by that name; else previews have no origin, and there is no notebook."`
	Tokens        string          `json:"tokens" doc:"Whether requests need a token: auto (beyond loopback, and where other host names than loopback ones are allowed: a proxy passes requests on from elsewhere), always."`
	Driver        string          `json:"driver" doc:"What makes sandboxes."`
	Model         string          `json:"model" doc:"Model of jobs that name none, as provider:model. Empty: one of the provider whose key is in the environment."`
	Concurrency   int             `json:"concurrency" doc:"Jobs that run at once in this process. 0: only the API, the jobs are run by workers elsewhere."`
	Desktop       bool            `json:"desktop" doc:"Whether the services of machines (display and desktop) are started with them, in the background. If not, they are started when they are first wanted."`
	Templates     bool            `json:"templates" doc:"Whether a machine is started once, warmed up and frozen, so that later ones go on from there. It takes about 60 MB below the data directory."`
	Pool          Pool            `json:"pool"`
	Docker        Docker          `json:"docker"`
	Log           Log             `json:"log"`
	Egress        Egress          `json:"egress"`
	Packages      Packages        `json:"packages"`
	Memory        Memory          `json:"memory"`
	Limits        glovebox.Limits `json:"limits" doc:"Limits of jobs that name none."`
	Models        []Model         `json:"models" doc:"What is assumed of models, where the built-in table is wrong or lacks one; the last entry that fits counts, field by field. A list of: model (provider:name; a * at its end stands for any rest), window and max_output (tokens), images and reasoning (true or false), computer (type of the provider's own computer tool, e.g. computer_toolset_20260801; empty for none), input_price, output_price, cache_read_price and cache_write_price (US dollars for a million tokens), fold_high and fold_low (tokens of a request at which older history is folded into notes, and to which; computed from window and prices if they are left out). In the environment: as YAML."`
}

// Model replaces what is assumed of models. Fields that are nil leave it as it
// is. It is llm.Override, which checks it: layers apart, the two are one.
type Model struct {
	Model           string   `json:"model"`
	Window          *int64   `json:"window"`
	MaxOutput       *int64   `json:"max_output"`
	Images          *bool    `json:"images"`
	Reasoning       *bool    `json:"reasoning"`
	Computer        *string  `json:"computer"`
	InputPrice      *float64 `json:"input_price"`
	OutputPrice     *float64 `json:"output_price"`
	CacheReadPrice  *float64 `json:"cache_read_price"`
	CacheWritePrice *float64 `json:"cache_write_price"`
	FoldHigh        *int64   `json:"fold_high"`
	FoldLow         *int64   `json:"fold_low"`
}

// Pool is what is kept ready for jobs to come.
type Pool struct {
	Size    int   `json:"size" doc:"Machines that are kept ready, started from the template. 0: none are. Each takes about 100 MB of memory."`
	MinFree int64 `json:"min_free" doc:"Bytes of memory that must be available on the host for a machine to be made ready."`
}

// Docker is the engine of the driver docker.
type Docker struct {
	Host    string `json:"host" doc:"Address of the engine, e.g. unix:///var/run/docker.sock. Empty: as DOCKER_HOST says, else the local one."`
	Runtime string `json:"runtime" doc:"Runtime of the engine that runs the sandboxes: runc, runsc, kata or another that it knows. Empty: its default."`
	Image   string `json:"image" doc:"Reference of the machine image. Empty: the one of this version, which is brought to the engine if it is not there."`
}

// Log is how the server logs.
type Log struct {
	Format string `json:"format" doc:"text or json."`
	Level  string `json:"level" doc:"debug, info, warn or error."`
}

// Egress is what jobs may reach unless they say otherwise.
type Egress struct {
	Allow  []string `json:"allow" doc:"Rules: host, host:port, .suffix (itself and all below), .suffix:port, an address. A rule that is an address opens it even if it is private."`
	Public bool     `json:"public" doc:"Whether the well-known public package registries are allowed."`
	Host   bool     `json:"host" doc:"Whether the mirrors that the package managers of this host use are allowed, and used by those in sandboxes."`
}

// Packages is the cache of packages that jobs have installed.
type Packages struct {
	MaxBytes int64 `json:"max_bytes" doc:"Bytes of npm and Python packages that are kept for later jobs. 0: none are."`
}

// Memory is how jobs remember more than fits into a model's window.
type Memory struct {
	Summaries  string     `json:"summaries" doc:"Who writes the summaries of history that leaves the window: model (the job's own, beside its work; counted in its limits), digest (nobody: they are derived, free and plainer)."`
	Embeddings Embeddings `json:"embeddings"`
}

// Embeddings are vectors by which the past of a job is searched beside words.
type Embeddings struct {
	URL   string `json:"url" doc:"Address of an OpenAI-compatible API for embeddings, such as http://localhost:11434/v1. Everything that jobs see is sent there. Its key, if it wants one, is GLOVEBOX_EMBEDDINGS_KEY in the environment. Empty: none are used."`
	Model string `json:"model" doc:"Model of the embeddings."`
}

// The values that can be chosen from.
var (
	logFormats  = []string{"text", "json"}
	logLevels   = []string{"debug", "info", "warn", "error"}
	tokenModes  = []string{"auto", "always"}
	summarizers = []string{"model", "digest"}
)

// Bounds of the numbers.
const (
	MaxConcurrency = 1000
	MaxModels      = 1000
	MaxPool        = 100
	minPackages    = 16 << 20
)

// Default returns the configuration of a server that is told nothing.
func Default() Config {
	return Config{
		Data:        defaultData(),
		Listen:      "127.0.0.1:8000",
		Tokens:      "auto",
		Driver:      "gvisor",
		Concurrency: 4,
		Desktop:     true,
		Templates:   true,
		Pool:        Pool{Size: 1, MinFree: 1 << 30},
		Log:         Log{Format: "text", Level: "info"},
		Egress:      Egress{Public: true, Host: true},
		Packages:    Packages{MaxBytes: 5 << 30},
		Memory:      Memory{Summaries: "model"},
		Limits:      glovebox.DefaultLimits(),
	}
}

// defaultData is where programs of a user keep data.
func defaultData() string {
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "glovebox")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "glovebox")
	}
	return ""
}

// Validate returns everything that is wrong with c, joined. drivers are the
// names that Driver may have.
func (c Config) Validate(drivers ...string) error {
	var errs []error
	bad := func(field, hint, format string, args ...any) {
		errs = append(errs, glovebox.Invalid(field, hint, format, args...))
	}
	oneOf := func(field, v string, of []string) {
		if !slices.Contains(of, v) {
			bad(field, "use one of: "+strings.Join(of, ", "), "%q is none", v)
		}
	}
	if c.Data == "" || strings.ContainsRune(c.Data, 0) {
		bad("data", "name a directory with --data", "%q is not a directory's name", c.Data)
	}
	if err := checkListen(c.Listen); err != nil {
		bad("listen", "give host:port, such as 127.0.0.1:8000", "%s", err)
	}
	for i, h := range c.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/: ,") {
			bad(fmt.Sprintf("allowed_hosts[%d]", i), "give a host name, without scheme and port", "%q is not one", h)
		}
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		bad("public_url", "give an address such as https://example.com/glovebox", "%s", err)
	}
	if err := checkPreviewDomain(c.PreviewDomain); err != nil {
		bad("preview_domain", "give a domain such as preview.example.com", "%s", err)
	}
	oneOf("tokens", c.Tokens, tokenModes)
	oneOf("log.format", c.Log.Format, logFormats)
	oneOf("log.level", c.Log.Level, logLevels)
	oneOf("memory.summaries", c.Memory.Summaries, summarizers)
	if err := checkEmbeddings(c.Memory.Embeddings); err != nil {
		bad("memory.embeddings", "give url and model, or neither", "%s", err)
	}
	if len(drivers) > 0 {
		oneOf("driver", c.Driver, drivers)
	}
	if c.Concurrency < 0 || c.Concurrency > MaxConcurrency {
		bad("concurrency", fmt.Sprintf("give a number from 0 to %d", MaxConcurrency), "%d is out of range", c.Concurrency)
	}
	if c.Pool.Size < 0 || c.Pool.Size > MaxPool {
		bad("pool.size", fmt.Sprintf("give a number from 0 to %d", MaxPool), "%d is out of range", c.Pool.Size)
	}
	if c.Pool.MinFree < 0 {
		bad("pool.min_free", "give a number of bytes, or 0 for none", "%d is negative", c.Pool.MinFree)
	}
	if n := c.Packages.MaxBytes; n != 0 && n < minPackages {
		bad("packages.max_bytes", fmt.Sprintf("give at least %d, or 0 for none", minPackages), "%d is too little", n)
	}
	if len(c.Models) > MaxModels {
		bad("models", fmt.Sprintf("give at most %d", MaxModels), "%d are too many", len(c.Models))
	}
	if err := c.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address", s)
	}
	if strings.ContainsAny(host, " /@") {
		return fmt.Errorf("%q is not a host", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not a port", port)
	} else if n == 0 && port != "0" {
		return fmt.Errorf("%q is not a port", port)
	}
	return nil
}

func checkPublicURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is not an address", s)
	}
	bad := u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != ""
	if prefix := strings.TrimSuffix(u.EscapedPath(), "/"); bad || prefix != "" && path.Clean(prefix) != prefix {
		return fmt.Errorf("%q is not the address of a server", s)
	}
	return nil
}

func checkEmbeddings(e Embeddings) error {
	if (e.URL == "") != (e.Model == "") {
		return fmt.Errorf("url is %q and model is %q", e.URL, e.Model)
	}
	if e.URL == "" {
		return nil
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is not an address of HTTP, or holds a password", e.URL)
	}
	return nil
}

func checkPreviewDomain(s string) error {
	if s == "" {
		return nil
	}
	host, port := s, "1"
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port that can be used", s)
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%q is not a domain", s)
		}
	}
	if net.ParseIP(host) != nil {
		return fmt.Errorf("%q is an address, which has no subdomains", s)
	}
	return nil
}

// publicElsewhere reports whether the public address is not this machine's.
func (c Config) publicElsewhere() bool {
	u, err := url.Parse(c.PublicURL)
	if err != nil || c.PublicURL == "" {
		return c.PublicURL != ""
	}
	h := u.Hostname()
	ip := net.ParseIP(h)
	return h != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Loopback reports whether Listen can only be reached from this machine.
func (c Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NeedsTokens reports whether requests need tokens: the API can be reached
// from elsewhere, by itself or, under a name of its own, through a proxy.
func (c Config) NeedsTokens() bool {
	return c.Tokens == "always" || !c.Loopback() || len(c.AllowedHosts) > 0 || c.publicElsewhere()
}

// Path returns a path in the data directory.
func (c Config) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Data}, elem...)...)
}
