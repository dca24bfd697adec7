package hostconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
)

// host makes a file system with the given files and returns its source.
func host(t *testing.T, files map[string]string, env ...string) Source {
	t.Helper()
	root := t.TempDir()
	for path, s := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Source{Root: root, Home: "/home/u", Env: env}
}

// secret is in every credential of company, so that a leak is found.
const secret = "s3cr3t"

func company(t *testing.T) Source {
	t.Helper()
	return host(t, map[string]string{
		"/etc/npmrc": "registry=https://old.corp.example/npm\n",
		"/home/u/.npmrc": "; comment\nregistry = https://npm.corp.example:8443/repo/npm/\n@corp:registry=https://scope.corp.example/\n" +
			"//npm.corp.example:8443/repo/:_authToken=${NPM_TOKEN}\n//scope.corp.example/:_auth=" + secret + "\ncafile=/etc/corp.pem\n",
		"/etc/pip.conf":                  "[global]\nindex-url = https://u:" + secret + "@pip.corp.example/simple\ntrusted-host = pip.corp.example\n",
		"/home/u/.config/pip/pip.conf":   "[install]\nextra-index-url =\n    https://u:" + secret + "@extra.corp.example/simple?token=" + secret + "\n    https://two.corp.example/simple\n",
		"/etc/apt/sources.list":          "# no\ndeb [arch=amd64 signed-by=/k.gpg] http://apt.corp.example/debian trixie main\ndeb-src http://src.corp.example/debian trixie main\n",
		"/etc/apt/sources.list.d/x.list": "deb http://u:" + secret + "@apt2.corp.example/debian-security/ trixie-security main # c\n",
		"/etc/apt/sources.list.d/y.sources": "Types: deb deb-src\nURIs: https://apt3.corp.example/tools\n https://apt4.corp.example/tools\nSuites: stable\n\n" +
			"Types: deb\nEnabled: no\nURIs: https://off.corp.example/\nSuites: x\n",
		"/home/u/.config/go/env": "GOPROXY=https://u:" + secret + "@go.corp.example|https://go2.corp.example,direct\nGOSUMDB=sum.corp.example+abc\n",
		"/home/u/.cargo/config.toml": "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://u:" + secret + "@cargo.corp.example/index/\"\n" +
			"[registries.corp]\ntoken = \"" + secret + "\"\nindex = \"https://cargo2.corp.example/\"\n",
		"/home/u/.gitconfig": "[url \"https://u:" + secret + "@git.corp.example/\"]\n\tinsteadOf = https://code.example/\n[url \"ssh://git@ssh.corp.example:2222/\"]\n\tpushInsteadOf = https://code.example/\n",
	}, "NPM_TOKEN="+secret, "GOSUMDB=off", "PIP_EXTRA_INDEX_URL=https://two.corp.example/simple")
}

func TestCompany(t *testing.T) {
	t.Parallel()
	c := Read(company(t))
	want := []string{"apt.corp.example:80", "apt2.corp.example:80", "apt3.corp.example:443", "apt4.corp.example:443", "cargo.corp.example:443",
		"cargo2.corp.example:443", "extra.corp.example:443", "git.corp.example:443", "go.corp.example:443", "go2.corp.example:443",
		"npm.corp.example:8443", "pip.corp.example:443", "scope.corp.example:443", "ssh.corp.example:2222", "two.corp.example:443"}
	d := c.Defaults()
	if !slices.Equal(d.Mirrors, want) {
		t.Errorf("mirrors %v\nwant    %v", d.Mirrors, want)
	}
	if _, err := egress.Compile(glovebox.Egress{}, d); err != nil {
		t.Error(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %v", c.Warnings)
	}
	if a := c.NPM.Authorization(); a != "Bearer "+secret {
		t.Errorf("npm: Authorization %q", a)
	}
	if a := c.NPMScope["@corp"].Authorization(); a != "Basic "+secret {
		t.Errorf("@corp: Authorization %q", a)
	}
	if a := c.Pip.Authorization(); !strings.HasPrefix(a, "Basic ") {
		t.Errorf("pip: Authorization %q", a)
	}
	s := c.Settings(Options{Release: "trixie"})
	for k, want := range map[string]string{
		"npm_config_registry": "https://npm.corp.example:8443/repo/npm/",
		"PIP_INDEX_URL":       "https://pip.corp.example/simple/",
		"PIP_EXTRA_INDEX_URL": "https://extra.corp.example/simple/ https://two.corp.example/simple/",
		"PIP_TRUSTED_HOST":    "pip.corp.example",
		"GOPROXY":             "https://go.corp.example|https://go2.corp.example,direct",
		"GOSUMDB":             "off",
		"https_proxy":         "http://127.0.0.1:3128",
	} {
		if s.Env[k] != want {
			t.Errorf("%s=%q; want %q", k, s.Env[k], want)
		}
	}
	for path, want := range map[string]string{
		"/etc/npmrc":                             "@corp:registry=https://scope.corp.example/",
		"/etc/apt/sources.list.d/debian.sources": "URIs: http://apt2.corp.example/debian-security\nSuites: trixie-security",
		"/etc/gitconfig":                         "[url \"https://git.corp.example/\"]\n\tinsteadOf = \"https://code.example/\"",
		"/home/agent/.cargo/config.toml":         "registry = \"sparse+https://cargo.corp.example/index/\"",
	} {
		if !strings.Contains(string(s.Files[path]), want) {
			t.Errorf("%s: %s; want %s", path, s.Files[path], want)
		}
	}
}

func TestNoCredentialLeaves(t *testing.T) {
	t.Parallel()
	src := company(t)
	c := Read(src)
	for _, o := range []Options{{}, {Release: "trixie"}, {NPMCache: true, PipCache: true}} {
		s := c.Settings(o)
		all := fmt.Sprint(s.Env, c.Defaults(), c.Warnings) + fmt.Sprintf("%v %+v %#v", c.NPM, c, c.Pip)
		for path, b := range s.Files {
			all += path + string(b)
		}
		for _, leak := range []string{secret, "dTpzM2NyM3Q"} { // and in base64
			if i := strings.Index(all, leak); i >= 0 {
				t.Errorf("a credential leaves: ...%s", all[max(0, i-80):i])
			}
		}
	}
}

func TestPackageCacheSettings(t *testing.T) {
	t.Parallel()
	s := Read(company(t)).Settings(Options{NPMCache: true, PipCache: true})
	if s.Env["npm_config_registry"] != "http://npm.glovebox.internal/" || s.Env["PIP_INDEX_URL"] != "http://pip.glovebox.internal/simple/" ||
		!strings.Contains(s.Env["PIP_TRUSTED_HOST"], "pip.glovebox.internal") {
		t.Errorf("%v", s.Env)
	}
}

func TestPlainHostAndBadFiles(t *testing.T) {
	t.Parallel()
	c := Read(host(t, nil))
	if d := c.Defaults(); len(d.Mirrors) > 0 || !slices.Contains(d.Allow, ".npmjs.org") {
		t.Errorf("%+v", d)
	}
	if s := c.Settings(Options{Release: "trixie"}); s.Env["npm_config_registry"] != "" || s.Files["/etc/apt/sources.list"] != nil {
		t.Errorf("%v", s)
	}
	c = Read(host(t, map[string]string{
		"/home/u/.npmrc":             "registry=ftp://x.example/\nregistry=http://0x7f.1/\nregistry=:\n//\n=\n[\n@:registry=\n//a:_auth\n",
		"/etc/pip.conf":              "[global]\nindex-url = \x00https://a.example\n" + strings.Repeat("x", 1<<21),
		"/etc/apt/sources.list":      "deb\ndeb [\ndeb [a] \ndeb cdrom:[x]/ y z\ndeb file:/x y z\n",
		"/home/u/.cargo/config.toml": "[source.a\"b]\nregistry = \"https://a.example/\"\n[source.ok]\nreplace-with = \"a\\\"b\"\n",
		"/home/u/.gitconfig":         "[url \"https://a.example/\n]\"]\ninsteadOf = \"x\\\"\n",
	}, "GOPROXY=file:///x,https://[::1%25a]/,off"))
	if d := c.Defaults(); len(d.Mirrors) > 0 {
		t.Errorf("mirrors of nonsense: %v", d.Mirrors)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "pip.conf is too large") {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func authority(t *testing.T, name string, ca bool) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: "issuer of " + name}}
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true}
	if ca {
		issuer = tpl
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, issuer, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k}))
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	store, _ := authority(t, "store", true)
	corp, corpKey := authority(t, "corp", true)
	local, _ := authority(t, "local", true)
	leaf, _ := authority(t, "leaf", false)
	public, _ := authority(t, "public", true)
	c := Read(host(t, map[string]string{
		"/etc/ssl/certs/ca-certificates.crt":       store + public + corp,
		"/usr/share/ca-certificates/mozilla/p.crt": public,
		"/etc/corp.pem": "# ours\n" + corpKey + corp + leaf + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"/usr/local/share/ca-certificates/local.crt": local,
	}, "NODE_EXTRA_CA_CERTS=/etc/corp.pem", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "CURL_CA_BUNDLE=relative.pem"))
	got := string(c.CAs)
	for name, s := range map[string]string{"store": store, "corp": corp, "local": local} {
		if strings.Count(got, s) != 1 {
			t.Errorf("%s is there %d times", name, strings.Count(got, s))
		}
	}
	if n := strings.Count(got, "BEGIN"); n != 3 || strings.Contains(got, "PRIVATE") {
		t.Errorf("%d blocks: %s", n, got)
	}
}
