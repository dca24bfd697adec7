package pool

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// TestLocks: owners start while another removes what dead ones left. None
// loses the file that it has locked, and those of dead ones go.
func TestLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.lock")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "owner.lock")
	stop := make(chan struct{})
	var removing sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				removeLock(path)
			}
		}
	})
	for range 300 {
		f, err := holdLock(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if removeLock(path); !isAt(f, path) {
				t.Fatal("an owner lost its file")
			}
		}
		local.Unlock(f) // as if it died
	}
	close(stop)
	removing.Wait()
	removeLock(dead)
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the file of a dead owner: %v", err)
	}
}
