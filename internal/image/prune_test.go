package image

import (
	"os"
	"path/filepath"
	"testing"
)

// Prune leaves the current image, and nothing of builds that died.
func TestPrune(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir()}
	old, left := s.Path("0000000000000000"), filepath.Join(s.Dir, buildPrefix+"1", "x")
	for _, path := range []string{s.Path(Digest()), old, left} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := s.Prune(t.Context())
	if err != nil || len(gone) != 1 || gone[0].Path != old {
		t.Fatalf("removed %+v, %v", gone, err)
	}
	if _, err := s.Current(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{old, filepath.Dir(left)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if gone, err := s.Prune(t.Context()); err != nil || len(gone) != 0 {
		t.Errorf("removed again: %+v, %v", gone, err)
	}
}
