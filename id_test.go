package glovebox_test

import (
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func TestNewIDSortsByTimeAndIsValid(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10_000 {
		id := glovebox.NewID()
		if !glovebox.ValidID(id) || seen[id] {
			t.Fatalf("%q is not valid or not new", id)
		}
		seen[id] = true
	}
	first := glovebox.NewID()
	start := time.Now().UnixMilli()
	for time.Now().UnixMilli() == start { //nolint:revive // the next millisecond is what is waited for
	}
	if second := glovebox.NewID(); second <= first {
		t.Errorf("%q, made a millisecond later, sorts before %q", second, first)
	}
}

func TestValidIDRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "x", "../../../../etc/passwd.....", "01arz3ndektsv4rrffq69g5fav0", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fa\n", "ilou3ndektsv4rrffq69g5favx"} {
		if glovebox.ValidID(s) {
			t.Errorf("%q passes for an id", s)
		}
	}
}
