package hostconf

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// npm reads npm's settings: the host's, the user's, the environment's, each
// before the one that has precedence over it.
func (r *reader) npm() {
	user := r.home(".npmrc")
	env := map[string]string{}
	for k, v := range r.env {
		if name, ok := strings.CutPrefix(strings.ToLower(k), "npm_config_"); ok && v != "" {
			env[name] = v
		}
	}
	if v := env["userconfig"]; v != "" {
		user = v
	}
	global := []string{"/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc"}
	if v := env["globalconfig"]; v != "" {
		global = []string{v}
	}
	auths := map[string]string{} // "//host/path/" -> field Authorization
	for _, path := range append(global, user) {
		for _, p := range ini(r.file(path)) {
			r.npmSetting(p.key, r.expand(p.value), auths)
		}
	}
	for k, v := range env {
		r.npmSetting(k, v, auths)
	}
	attach := func(reg *Registry) {
		if u, err := url.Parse(reg.URL); err == nil && reg.auth == "" {
			for prefix := "//" + u.Host + u.Path; len(prefix) > 2; prefix = prefix[:strings.LastIndexByte(strings.TrimSuffix(prefix, "/"), '/')+1] {
				if a, ok := auths[prefix]; ok {
					reg.auth = a
					return
				}
			}
		}
	}
	attach(&r.c.NPM)
	for scope, reg := range r.c.NPMScope {
		attach(&reg)
		r.c.NPMScope[scope] = reg
	}
}

func (r *reader) npmSetting(key, value string, auths map[string]string) {
	switch scope, isScope := strings.CutSuffix(key, ":registry"); {
	case key == "registry":
		if reg, ok := registry(value); ok {
			r.c.NPM = reg
		}
	case isScope && strings.HasPrefix(scope, "@"):
		if reg, ok := registry(value); ok {
			r.c.NPMScope[scope] = reg
		}
	case strings.HasPrefix(key, "//"):
		i := strings.LastIndexByte(key, ':')
		if i < 0 {
			return
		}
		at := strings.TrimSuffix(key[:i], "/") + "/"
		switch key[i+1:] {
		case "_authToken":
			auths[at] = "Bearer " + value
		case "_auth":
			auths[at] = "Basic " + value
		case "username":
			auths[at+"#user"] = value
		case "_password": // in base64
			if pw, err := base64.StdEncoding.DecodeString(value); err == nil {
				auths[at+"#password"] = string(pw)
			}
		}
		if u, ok := auths[at+"#user"]; ok && auths[at+"#password"] != "" {
			auths[at] = basic(u, auths[at+"#password"])
		}
	}
}

// pip reads pip's settings, and what uv has of them in the environment.
func (r *reader) pip() {
	files := []string{"/etc/xdg/pip/pip.conf", "/etc/pip.conf", r.home(".pip", "pip.conf"), r.configHome("pip", "pip.conf")}
	if v := r.env["PIP_CONFIG_FILE"]; v != "" {
		files = append(files, v)
	}
	set := func(key, value string) {
		switch key {
		case "index-url":
			if reg, ok := registry(value); ok {
				r.c.Pip = reg
			}
		case "extra-index-url":
			for _, s := range strings.Fields(value) {
				if reg, ok := registry(s); ok && !slices.Contains(r.c.PipExtra, reg) {
					r.c.PipExtra = append(r.c.PipExtra, reg)
				}
			}
		case "trusted-host":
			for _, h := range strings.Fields(value) {
				if !slices.Contains(r.c.PipTrust, h) && len(h) < 256 {
					r.c.PipTrust = append(r.c.PipTrust, h)
				}
			}
		}
	}
	for _, path := range files {
		for _, p := range ini(r.file(path)) {
			if p.section == "global" || p.section == "install" {
				set(strings.ReplaceAll(p.key, "_", "-"), p.value)
			}
		}
	}
	for _, k := range []string{"UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"} {
		set("index-url", r.env[k])
	}
	set("extra-index-url", r.env["PIP_EXTRA_INDEX_URL"])
	set("trusted-host", r.env["PIP_TRUSTED_HOST"])
}

// apt reads apt's sources, in both formats.
func (r *reader) apt() {
	r.aptLines(r.file("/etc/apt/sources.list"))
	entries, _ := os.ReadDir(filepath.Join(r.Root, "/etc/apt/sources.list.d"))
	for _, e := range entries[:min(len(entries), 100)] {
		path := filepath.Join("/etc/apt/sources.list.d", e.Name())
		switch filepath.Ext(e.Name()) {
		case ".list":
			r.aptLines(r.file(path))
		case ".sources":
			for stanza := range strings.SplitSeq(r.file(path), "\n\n") {
				r.aptStanza(stanza)
			}
		}
	}
}

func (r *reader) aptLines(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "deb" {
			continue
		}
		f = f[1:]
		if strings.HasPrefix(f[0], "[") {
			i := slices.IndexFunc(f, func(s string) bool { return strings.HasSuffix(s, "]") })
			f = f[i+1:]
		}
		if len(f) >= 2 {
			r.aptSource(f[0], f[1:2])
		}
	}
}

func (r *reader) aptStanza(s string) {
	fields := map[string]string{}
	last := ""
	for line := range strings.SplitSeq(s, "\n") {
		k, v, ok := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			fields[last] += " " + strings.TrimSpace(line)
		case ok:
			last = strings.ToLower(k)
			fields[last] = strings.TrimSpace(v)
		}
	}
	if strings.EqualFold(fields["enabled"], "no") || !slices.Contains(strings.Fields(fields["types"]), "deb") {
		return
	}
	for _, u := range strings.Fields(fields["uris"]) {
		r.aptSource(u, strings.Fields(fields["suites"]))
	}
}

func (r *reader) aptSource(s string, suites []string) {
	if reg, ok := registry(s); ok && len(r.c.Apt) < 100 {
		r.c.Apt = append(r.c.Apt, AptSource{URL: strings.TrimSuffix(reg.URL, "/"), Suites: suites})
	}
}

// goVars are the settings of go that say where modules come from.
var goVars = []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY"}

func (r *reader) golang() {
	path := r.configHome("go", "env")
	if v := r.env["GOENV"]; v != "" {
		path = v
	}
	values := map[string]string{}
	if path != "off" {
		for _, p := range ini(r.file(path)) {
			values[p.key] = p.value
		}
	}
	for _, k := range goVars {
		v := values[k]
		if e := r.env[k]; e != "" {
			v = e
		}
		if v != "" && len(v) <= maxValue {
			r.c.Go[k] = cleanGo(v)
		}
	}
}

// cleanGo removes credentials from the URLs in a list.
func cleanGo(v string) string {
	out := ""
	for v != "" {
		i := strings.IndexAny(v, ",| ")
		word, sep := v, ""
		if i >= 0 {
			word, sep = v[:i], v[i:i+1]
		}
		v = v[len(word)+len(sep):]
		if strings.Contains(word, "://") {
			u, _, ok := clean(word)
			if !ok {
				continue // file: and what is no URL
			}
			word = u.String()
		}
		out += word + sep
	}
	return strings.TrimRight(out, ",| ")
}

// goURLs returns the URLs of proxies and checksum databases.
func goURLs(vars map[string]string) []string {
	var out []string
	for _, k := range []string{"GOPROXY", "GOSUMDB"} {
		for _, word := range strings.FieldsFunc(vars[k], func(c rune) bool { return strings.ContainsRune(",| ", c) }) {
			switch {
			case strings.Contains(word, "://"):
				out = append(out, word)
			case k == "GOSUMDB" && strings.Contains(word, "."): // a name, maybe with its key
				name, _, _ := strings.Cut(word, "+")
				out = append(out, "https://"+name)
			}
		}
	}
	return out
}

// cargo reads the registries and source replacements of cargo.
func (r *reader) cargo() {
	dir := r.home(".cargo")
	if v := r.env["CARGO_HOME"]; filepath.IsAbs(v) {
		dir = v
	}
	if dir == "" {
		return
	}
	s := r.file(filepath.Join(dir, "config.toml"))
	if s == "" {
		s = r.file(filepath.Join(dir, "config"))
	}
	section := ""
	for _, p := range ini(s) {
		name, ok := strings.CutPrefix(p.section, "source.")
		if !ok {
			name, ok = strings.CutPrefix(p.section, "registries.")
		}
		if !ok || !plainName(unquote(name)) {
			continue
		}
		value := p.value
		switch p.key {
		case "replace-with":
			if !plainName(value) {
				continue
			}
		case "registry", "index", "git":
			prefix := ""
			if rest, ok := strings.CutPrefix(value, "sparse+"); ok {
				prefix, value = "sparse+", rest
			}
			u, _, ok := clean(value)
			if !ok {
				continue
			}
			r.c.Cargo = append(r.c.Cargo, u.String())
			value = prefix + u.String()
		default:
			continue
		}
		if p.section != section {
			section = p.section
			r.c.CargoRC += "[" + section + "]\n"
		}
		r.c.CargoRC += p.key + " = \"" + value + "\"\n"
	}
}

// plainName reports whether s can stand in a file without quotes.
func plainName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

// git reads which URLs git is to use in place of others.
func (r *reader) git() {
	files := []string{"/etc/gitconfig", r.configHome("git", "config"), r.home(".gitconfig")}
	if v := r.env["GIT_CONFIG_GLOBAL"]; v != "" {
		files = []string{files[0], v}
	}
	for _, path := range files {
		for _, p := range ini(r.file(path)) {
			key := strings.ToLower(p.key)
			base, ok := strings.CutPrefix(p.section, "url ")
			if !ok || key != "insteadof" && key != "pushinsteadof" || len(r.c.Git) >= 100 {
				continue
			}
			u, _, ok := clean(unquote(strings.TrimSpace(base)))
			if !ok || strings.ContainsAny(p.value, "\"\\\n") || len(p.value) > maxValue {
				continue
			}
			if from, err := url.Parse(p.value); err == nil && from.User != nil && from.Scheme != "ssh" {
				continue
			}
			r.c.Git = append(r.c.Git, GitRewrite{URL: u.String(), InsteadOf: p.value, Push: key == "pushinsteadof"})
		}
	}
}
