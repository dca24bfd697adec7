package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// TestFoldCold: after a long pause the cache is gone, so that less may as well
// be written anew; that is decided by times in the log and the loop's clock.
func TestFoldCold(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := newFolding(40)
		f.digests = true
		f.info.Window = 80_000
		f.main = func(r *llm.Request) error {
			if r.Step == 35 && r.Attempt == 1 {
				return &llm.Error{Kind: llm.KindRateLimited, RetryAfter: 9 * time.Minute}
			}
			return nil
		}
		f.mustComplete(t)
		folds, _ := f.folds()
		cold := 0
		for _, x := range folds {
			if x.Reason == glovebox.FoldCold {
				cold++
			}
		}
		if cold != 1 {
			t.Errorf("folds %+v", folds)
		}
	})
}

// TestFoldRecalls: what the plan's active step needs is brought along, bounded;
// that nothing can be found is no matter.
func TestFoldRecalls(t *testing.T) {
	t.Parallel()
	for name, search := range map[string]func(context.Context, recall.Query) (recall.Result, error){
		"found": func(_ context.Context, q recall.Query) (recall.Result, error) {
			var r recall.Result
			for i := range 40 {
				r.Hits = append(r.Hits, recall.Hit{Event: int64(i + 3), Text: strings.Repeat("the value is parsed here. ", 100), SupersededBy: int64(i % 2 * 5)})
			}
			return r, nil
		},
		"not found": func(context.Context, recall.Query) (recall.Result, error) {
			return recall.Result{}, errors.New("the index is damaged")
		},
		"stuck": func(ctx context.Context, _ recall.Query) (recall.Result, error) {
			<-ctx.Done()
			return recall.Result{}, ctx.Err()
		},
		"panics": func(context.Context, recall.Query) (recall.Result, error) { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				f := newFolding(30)
				f.plan = true
				f.recall = func(ctx context.Context, q recall.Query) (recall.Result, error) {
					if !strings.Contains(q.Words, "where the value is parsed") || q.Through <= 0 {
						t.Errorf("asked for %+v", q)
					}
					return search(ctx, q)
				}
				f.mustComplete(t)
				folds, _ := f.folds()
				if len(folds) == 0 {
					t.Fatal("no fold")
				}
				n := 0
				for _, q := range folds[0].Recalled {
					n += len(q.Text)
					if q.Event > folds[0].Through {
						t.Errorf("event %d is there word for word", q.Event)
					}
				}
				if (n > 0) != (name == "found") || n > 4*recallTokens {
					t.Errorf("%d bytes were recalled: %+v", n, folds[0].Recalled)
				}
			})
		})
	}
}

// TestFoldKilled kills the worker at every append of a job that folds, before
// its commit and after, and has others finish it.
func TestFoldKilled(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		whole := newFolding(24)
		whole.mustComplete(t)
		if n := whole.count(glovebox.EventFolded); n == 0 {
			t.Fatal("no fold")
		}
		for cut := 3; cut < len(whole.events); cut++ { // a worker leaves one of these logs, whenever it dies
			if typ := whole.events[cut-1].Type; cut%9 != 0 && !strings.HasPrefix(string(typ), "memory.") && !strings.HasPrefix(string(whole.events[cut].Type), "memory.") {
				continue
			}
			f := whole.resumed(whole.events[:cut])
			f.mustComplete(t)
			twice := f.resumed(whole.events[:cut]) // taken up twice: the same
			twice.mustComplete(t)
			folds, _ := f.folds()
			if again, _ := twice.folds(); len(folds) == 0 || len(again) != len(folds) {
				t.Errorf("cut at %d: %d and %d folds", cut, len(folds), len(again))
			}
			for i := 1; i < len(folds); i++ {
				if folds[i].Epoch != folds[i-1].Epoch+1 || folds[i].Through < folds[i-1].Through {
					t.Errorf("cut at %d: folds %+v", cut, folds)
				}
			}
		}
	})
}
