//go:build linux

package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// SpecDirs are where kernels are installed in a sandbox, the first that has
// one counts.
var SpecDirs = []string{"/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels"}

// specNames are the directories of a language's kernel, the first that is
// there counts.
var specNames = map[string][]string{
	"python":     {"python3", "python"},
	"typescript": {"typescript", "deno"},
	"bash":       {"bash"},
}

// Languages are those that a kernel can be asked for in.
const Languages = `"python", "typescript" or "bash"`

// Spec is how a kernel is started: what matters of its kernel.json.
type Spec struct {
	Name          string            `json:"-"` // of its directory
	Argv          []string          `json:"argv"`
	Env           map[string]string `json:"env"`
	InterruptMode string            `json:"interrupt_mode"` // "signal" if empty, or "message"
	Metadata      struct {
		Glovebox struct {
			// Transport is "ipc" for kernels that can listen on unix sockets,
			// which are cheaper; TCP on loopback is what all can.
			Transport string `json:"transport"`

			// Late is set for kernels whose result may come after they said
			// that they are idle, against the protocol (Deno's).
			Late bool `json:"late"`
		} `json:"glovebox"`
	} `json:"metadata"`
}

// maxSpec is the most bytes of a kernel.json.
const maxSpec = 64 << 10

// findSpec returns the kernel of a language.
func findSpec(dirs []string, language string) (Spec, error) {
	names := specNames[language]
	if names == nil {
		return Spec{}, glovebox.Invalid("language", "use "+Languages, "%.40q is not one that kernels are known for", language)
	}
	for _, dir := range dirs {
		for _, name := range names {
			file := filepath.Join(dir, name, "kernel.json")
			b, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			s := Spec{Name: name}
			if len(b) > maxSpec {
				return Spec{}, glovebox.Errorf(glovebox.CodeNotFound, "%s is larger than %d bytes", file, maxSpec)
			}
			if err := json.Unmarshal(b, &s); err != nil || len(s.Argv) == 0 {
				return Spec{}, glovebox.Errorf(glovebox.CodeNotFound, "%s is no kernel specification: %v", file, err)
			}
			return s, nil
		}
	}
	return Spec{}, glovebox.Errorf(glovebox.CodeNotFound, "no %s kernel is installed: the image has no %s/kernel.json in %s",
		language, names[0], strings.Join(dirs, " or "))
}

// args is the command line for a connection file.
func (s Spec) args(connection string) []string {
	args := make([]string, len(s.Argv))
	for i, a := range s.Argv {
		args[i] = strings.ReplaceAll(a, "{connection_file}", connection)
	}
	return args
}
