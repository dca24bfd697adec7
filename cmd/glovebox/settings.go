package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// settings are the flags that every command of a server has. What is not
// given comes from the environment, the file, or the defaults: see package
// config.
type settings struct {
	ConfigFile  string            `name:"config" placeholder:"FILE" help:"Configuration file (default: config.yaml in the data directory)."`
	Data        string            `placeholder:"DIR" help:"Directory for everything that is kept (default: ~/.local/share/glovebox)."`
	Driver      string            `placeholder:"NAME" help:"What makes sandboxes (default: gvisor)."`
	Model       string            `placeholder:"PROVIDER:NAME" help:"Model of jobs that name none, or replay:FILE for a recorded one."`
	Concurrency *int              `placeholder:"N" help:"Jobs that run at once (default: 4)."`
	LogFormat   string            `placeholder:"text|json" help:"How to log (default: text)."`
	LogLevel    string            `placeholder:"LEVEL" help:"What to log: debug, info, warn or error (default: info)."`
	Set         map[string]string `placeholder:"SETTING=VALUE" help:"Any setting that 'glovebox config' lists; may be repeated." mapsep:"none"`
}

// load returns the configuration with more flags than those of settings.
func (s settings) load(a *app, more map[string]any) (config.Config, error) {
	flags := map[string]any{}
	for name, v := range map[string]string{"data": s.Data, "driver": s.Driver, "model": s.Model, "log.format": s.LogFormat, "log.level": s.LogLevel} {
		if v != "" {
			flags[name] = v
		}
	}
	if s.Concurrency != nil {
		flags["concurrency"] = *s.Concurrency
	}
	for name, v := range more {
		flags[name] = v
	}
	fields := map[string]config.Field{}
	for _, f := range config.Default().Fields() {
		fields[f.Name] = f
	}
	for name, v := range s.Set {
		f, ok := fields[name]
		if !ok {
			return config.Config{}, glovebox.Invalid("set", "the settings are listed by: glovebox config", "there is no setting %q", name)
		}
		parsed, err := f.Parse(v)
		if err != nil {
			return config.Config{}, glovebox.Invalid("set "+name, "", "%s", err)
		}
		flags[name] = parsed
	}
	c, err := config.Load(config.Source{File: s.ConfigFile, Env: a.getenv, Flags: flags})
	if err != nil {
		return c, err
	}
	if c.Model, err = settled(c.Model); err != nil {
		return c, err
	}
	errs := []error{c.Validate(driverNames()...)}
	for _, o := range overrides(c) {
		errs = append(errs, o.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, llm.ValidateMarks(overrides(c))
}

// settled makes the path of a recording absolute, so that the job that has it
// for a model goes on wherever the next server or worker is started.
func settled(model string) (string, error) {
	path, ok := strings.CutPrefix(model, "replay:")
	if !ok || path == "" {
		return model, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", glovebox.Invalid("model", "name the file with its whole path", "%s", err)
	}
	return "replay:" + abs, nil
}

// overrides are what the configuration says about models.
func overrides(c config.Config) []llm.Override {
	list := make([]llm.Override, len(c.Models))
	for i, m := range c.Models {
		list[i] = llm.Override(m)
	}
	return list
}

// configCmd shows the configuration.
type configCmd struct {
	settings
}

// Run shows every setting with its value and meaning.
func (c *configCmd) Run(a *app) error {
	cfg, err := c.load(a, nil)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range cfg.Fields() {
		doc := f.Doc
		if f.Name == "limits.cost_micros" {
			doc += " 0: no limit of money." // here alone: in a request, 0 is the default
		}
		fmt.Fprintf(&b, "# %s (%s)\n%s = %s\n\n", plain(doc), f.Env, f.Name, plain(f.String()))
	}
	_, err = fmt.Fprint(a.stdout, strings.TrimSuffix(b.String(), "\n"))
	return err
}
