//go:build linux

package guestd

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// stateDir is what the daemon keeps for itself, readable by root alone.
const stateDir = "/var/lib/glovebox"

// real returns where an absolute path of the sandbox lies.
func (s *Server) real(p string) string {
	if s.o.Root == "" {
		return p
	}
	return filepath.Join(s.o.Root, p)
}

// virtual is the reverse of real.
func (s *Server) virtual(p string) string {
	if s.o.Root == "" {
		return p
	}
	v := strings.TrimPrefix(p, strings.TrimSuffix(s.o.Root, "/"))
	if v == "" {
		return "/"
	}
	return v
}

// resolve turns a path of a call, absolute or relative to the workspace, into
// where it lies. Under Options.Root it refuses what a symbolic link leads
// outside; with the real root the kernel's checks of the user are all there is.
func (s *Server) resolve(p string) (string, error) {
	switch {
	case p == "":
		return "", glovebox.Invalid("path", "give an absolute path or one relative to "+guest.Workspace, "the path is empty")
	case len(p) > 4095:
		return "", glovebox.Invalid("path", "use at most 4095 bytes", "a path of %d bytes is too long", len(p))
	case strings.IndexByte(p, 0) >= 0:
		return "", glovebox.Invalid("path", "leave it out", "the path %.80q contains a NUL byte", p)
	}
	if !path.IsAbs(p) {
		p = guest.Workspace + "/" + p
	}
	full := s.real(path.Clean(p))
	if s.o.Root == "" {
		return full, nil
	}
	return full, s.checkInside(full)
}

// checkInside refuses a path whose nearest existing parent lies outside Root.
func (s *Server) checkInside(full string) error {
	root, err := filepath.EvalSymlinks(s.o.Root)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(full); len(dir) >= len(s.o.Root); dir = filepath.Dir(dir) {
		got, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if got != root && !strings.HasPrefix(got, root+"/") {
			return glovebox.Errorf(glovebox.CodeForbidden, "%q leads out of the sandbox", s.virtual(full))
		}
		return nil
	}
	return nil
}

// resolveDir is resolve with a default.
func (s *Server) resolveDir(p string) (string, error) {
	if p == "" {
		p = guest.Workspace
	}
	return s.resolve(p)
}
