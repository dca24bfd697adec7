package image

import (
	"os"
	"path/filepath"
)

// Host is how package managers on this host reach their registries. A build
// has it while packages are installed; none of it stays in the image.
type Host struct {
	Env []string // "NAME=value", added to the build's environment; values may hold credentials
	CAs []byte   // PEM; certificates that the host trusts beside the public ones
}

// NPMRC is the variable in which a build is told the lines of an .npmrc:
// those that can't be variables themselves.
const NPMRC = "GLOVEBOX_NPMRC"

// writeDefinition writes the definition to a new directory, with the host's
// certificates. What may hold credentials goes by the environment, since other
// users may be able to read the directory.
func writeDefinition(dir string, h Host) error {
	for _, name := range files() {
		if err := writeFile(filepath.Join(dir, name), mustRead(name)); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "host.crt"), h.CAs)
}

// writeFile writes a file for the users of the namespace that builds.
func writeFile(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}
