package agent

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

// How old results are trimmed when the window fills: at three quarters of it,
// down to two fifths, so that the provider's cache is given up seldom and for
// much. The newest messages stay as they are.
const (
	trimOver = 1024 // bytes of a result; shorter ones stay
	trimKeep = 8    // messages
)

// makeRoom brings the next request into the model's window.
func (r *run) makeRoom(ctx context.Context) error {
	window := r.Info.Window
	tokens := r.memory.Tokens()
	if window == 0 {
		window = max(tokens*2, 1) // unknown: only the provider can say that it is too long
	}
	refused := r.at.tooLong > r.at.trimmed
	if tokens <= window*3/4 && !refused {
		return nil
	}
	target, keep := window*2/5, trimKeep
	if refused { // the count was wrong: harder, by what the count says now
		target, keep = min(target, tokens*2/5), 2
	}
	t, freed := r.memory.Trim(target, trimOver, keep)
	if freed < (tokens-target)/5 && keep > 2 {
		t, freed = r.memory.Trim(target, trimOver, 2)
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
