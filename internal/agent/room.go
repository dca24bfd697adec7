package agent

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

// Old results are trimmed when the window is three quarters full, down to two
// fifths, so that the provider's cache is given up seldom and for much.
const trimOver = 1024 // bytes of a result; shorter ones stay

// trimKeep is how many of the newest messages stay as they are: as many as
// the target allows.
var trimKeep = []int{8, 4, 2}

// makeRoom brings the next request into the model's window.
func (r *run) makeRoom(ctx context.Context) error {
	window := r.Info.Window
	tokens := r.memory.Tokens()
	if window == 0 {
		window = max(tokens*2, 1) // unknown: only the provider can say that it is too long
	}
	refused := r.at.tooLong > r.at.folded
	if tokens <= window*3/4 && !refused {
		return nil
	}
	target, keep := window*2/5, trimKeep
	if refused { // the count was wrong: harder, by what the count says now
		target, keep = min(target, tokens*2/5), trimKeep[2:]
	}
	var t glovebox.Trimmed
	var freed int64
	for _, k := range keep {
		if t, freed = r.memory.Trim(target, trimOver, k); tokens-freed <= target {
			break
		}
	}
	enough := freed >= (tokens-target)/5
	if enough && freed > 0 {
		if err := r.append(ctx, []glovebox.Event{event(glovebox.EventTrimmed, t)}); err != nil {
			return err
		}
	}
	fits := r.memory.Tokens()+leastOutput <= window
	if refused && !enough || !fits {
		return fail(*contextFailure(fmt.Sprintf("it has about %d tokens, the window has %d, and leaving out old results frees only %d.", tokens, window, freed)))
	}
	return nil
}
