package agent

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestCrowdedWindow: where history is folded at every other step, the model
// is not asked for summaries at each fold: that would double what a step costs.
func TestCrowdedWindow(t *testing.T) {
	t.Parallel()
	f := newFolding(40)
	f.info.FoldHigh, f.info.FoldLow = 9_000, 7_500
	f.mustComplete(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if folds := f.count(glovebox.EventFolded); folds < 10 || f.asked*2 > folds {
		t.Errorf("%d folds in 40 steps, %d calls for summaries", folds, f.asked)
	}
}
