package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPresenceBuriesOnlyTheDead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "workers")
	first, err := announce(dir, "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := announce(dir, "first"); err == nil {
		t.Error("two living workers have one name")
	}
	second, err := announce(dir, "second")
	if err != nil {
		t.Fatal(err)
	}
	unlockFile(second.file) // as the kernel does when a process is killed
	var buried []string
	refuse := errors.New("not now")
	bury := func(err error) error {
		buried = nil
		return first.bury(t.Context(), func(_ context.Context, name string) error {
			buried = append(buried, name)
			return err
		})
	}
	if err := bury(refuse); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	for _, want := range [][]string{{"second"}, nil} { // the refused one comes again, once; the living one never
		if err := bury(nil); err != nil || !slices.Equal(buried, want) {
			t.Errorf("buried %v, %v; want %v", buried, err, want)
		}
	}
	first.leave()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPresenceRefusesNamesThatAreNoFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "../x", "a/b", ".hidden", "a\x00b"} {
		if p, err := announce(t.TempDir(), name); err == nil {
			p.leave()
			t.Errorf("%q is the name of a worker", name)
		}
	}
}
