package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// childEnv names the place of the store in the process that will be killed.
const childEnv = "GLOVEBOX_STORETEST_CHILD"

// Main is the TestMain of a backend's test: it checks for leaked goroutines,
// and is what runs in the process that the suite kills.
func Main(m *testing.M, h Harness) {
	if place := os.Getenv(childEnv); place != "" {
		writeUntilKilled(place, h)
	}
	leaktest.Main(m)
}

// writeUntilKilled creates jobs and appends events from several goroutines,
// and prints each job and event number after the store has acknowledged it.
func writeUntilKilled(place string, h Harness) {
	s, err := h.Open(place, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx := context.Background()
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				j, _, err := s.CreateJob(ctx, NewCreated("t", strings.Repeat("x", 300)), store.IdempotencyKey{})
				if err != nil {
					os.Exit(1)
				}
				say("%s 1", j.ID)
				l, err := s.Claim(ctx, "w", leaseLength)
				if err != nil || l == nil {
					os.Exit(1)
				}
				for range 5 {
					j, err := s.Append(ctx, *l, []glovebox.Event{{Type: glovebox.EventNotice, Data: []byte(`{"text":"x"}`)}})
					if err != nil {
						os.Exit(1)
					}
					say("%s %d", j.ID, j.Seq)
				}
			}
		})
	}
	wg.Wait()
}

// testKillDurability kills a writing process several times, and finds
// everything that it acknowledged.
func testKillDurability(t *testing.T, h Harness) {
	f := &fixture{T: t, place: h.Place(t), clock: NewClock()}
	acked := map[string]int64{}
	for _, lines := range []int{1, 50, 500, 1500} {
		killAfter(t, f.place, lines, acked)
	}
	f.Store = f.another(h)
	for id, seq := range acked {
		j, err := f.Job(f.ctx(), "", id)
		if err != nil {
			t.Fatalf("an acknowledged job is lost: %v", err)
		}
		if j.Seq < seq {
			t.Errorf("job %s is at %d, %d was acknowledged", id, j.Seq, seq)
		}
		f.checkLog(id)
	}
	t.Logf("%d jobs survived 4 kills", len(acked))
}

func killAfter(t *testing.T, place string, lines int, acked map[string]int64) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for n := 1; sc.Scan(); n++ { // until the pipe is empty, after the kill too
		var id string
		var seq int64
		if c, err := fmt.Sscanf(sc.Text(), "%s %d", &id, &seq); c == 2 && err == nil && glovebox.ValidID(id) {
			acked[id] = max(acked[id], seq)
		}
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the child ended with %v", err)
	}
}
