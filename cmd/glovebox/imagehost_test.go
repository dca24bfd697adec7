//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
)

func TestBuildUsesTheHostsMirrors(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	npmrc := "registry=https://npm.example:8443/repo/\n//npm.example:8443/repo/:_authToken=t0ken\n"
	if err := os.WriteFile(filepath.Join(root, "home/.npmrc"), []byte(npmrc), 0o600); err != nil {
		t.Fatal(err)
	}
	h := buildHostOf(hostconf.Read(hostconf.Source{Root: root, Home: "/home", Env: []string{"PIP_INDEX_URL=https://ann:s3cret@pip.example/simple"}}))
	for _, want := range []string{
		"PIP_INDEX_URL=https://ann:s3cret@pip.example/simple/", "npm_config_registry=https://npm.example:8443/repo/",
		"GLOVEBOX_NPMRC=//npm.example:8443/repo/:_authToken=t0ken\n",
	} {
		if !slices.Contains(h.Env, want) {
			t.Errorf("%q is not in %q", want, h.Env)
		}
	}
	if h := buildHostOf(hostconf.Read(hostconf.Source{Root: t.TempDir()})); len(h.Env) != 0 {
		t.Errorf("a host without settings gives %q", h.Env)
	}
}
