package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestSubIDs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, subuid, subgid string
		hint                 string // empty: all is there
	}{
		{"both", "ann:100000:65536\nbob:165536:65536\n", "bob:165536:65536", ""},
		{"no files", "", "", "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 bob"},
		{"no groups", "bob:100000:65536\n", "", "sudo usermod --add-subgids 165536-231071 bob"},
		{"of another", "bobby:100000:65536\n", "bobby:100000:65536\n", "sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 bob"},
		{"too small", "bob:100000:1000\n", "bob:100000:65536\n", "sudo usermod --add-subuids 165536-231071 bob"},
		{"nonsense", "bob\nbob:x:y\nbob:1:99999999999999999999\n::\n", "bob:100000:65536\n", "sudo usermod --add-subuids 165536-231071 bob"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			etc := t.TempDir()
			for file, s := range map[string]string{"subuid": tt.subuid, "subgid": tt.subgid} {
				if s == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(etc, file), []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := checkSubIDsOf("bob", etc)
			if tt.hint == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "the user bob") || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("got %v; want the hint %s", err, tt.hint)
			}
		})
	}
}
