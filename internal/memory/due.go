package memory

import (
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Action is what is to be done about the length of the request.
type Action int

// The actions.
const (
	DueNothing Action = iota
	DuePrepare        // have summaries made for Spans(m, ""), while the job goes on
	DueFold           // fold before the next request, for the Reason
)

// Due is what is to be done before the next request, and why.
type Due struct {
	Action Action
	Reason glovebox.FoldReason // of a DueFold
}

// Due returns what is to be done before the next request is made at now. It
// is asked between calls: when all calls of the newest answer have a result.
//
// A cold cache is a reason where summaries are there already, or cost
// nothing: everything is written anew anyway, so it may as well be less. To
// have summaries made then would cost what the fold saves.
func (b *Builder) Due(m Marks, now time.Time) Due {
	b.catchUp(true)
	m = b.marks(m, "")
	c := b.settle()
	tokens, size := c.tokens(), c.size()
	switch {
	case b.changed:
		return Due{DueFold, glovebox.FoldModel}
	case b.pressed:
		return Due{DueFold, glovebox.FoldRefused}
	case tokens >= m.High && (b.worthFolding(m) || !fits(m, tokens)):
		return Due{DueFold, glovebox.FoldFull}
	case m.MaxBytes > 0 && size.bytes > m.MaxBytes, m.MaxImages > 0 && size.images > m.MaxImages:
		return Due{DueFold, glovebox.FoldBytes}
	case b.cold(m, now) && tokens >= m.Low+(m.High-m.Low)/3 && (m.Free && b.worthFolding(m) || c.scale(b.after(m, b.tree.end())) <= tokens-(tokens-m.Low)/2):
		return Due{DueFold, glovebox.FoldCold}
	case tokens >= m.Prepare && !m.Free && b.worthFolding(m) && c.scale(b.after(m, b.tree.end())) > m.Low+(tokens-m.Prepare)+c.scale(leafTokens(m)):
		return Due{Action: DuePrepare}
	}
	return Due{}
}

// worthFolding reports whether a fold can free a fifth of what it should: one
// answer with its results may be what fills the request, which stays until
// the next one is there.
func (b *Builder) worthFolding(m Marks) bool {
	c := b.settle()
	last := len(c.turns) - 1
	for last > 0 && c.turns[last].seq == 0 {
		last--
	}
	least := c.scale(b.wouldOpen(m, b.tree.end()) + c.lean(max(last, 0)))
	return (c.tokens()-least)*5 >= c.tokens()-m.Low
}

// fits reports whether the window has room for so many tokens and an answer.
func fits(m Marks, tokens int64) bool {
	return m.Window == 0 || tokens+min(outReserve, m.Window/8) <= m.Window
}

// cold reports whether the provider's cache has expired.
func (b *Builder) cold(m Marks, now time.Time) bool {
	return m.TTL > 0 && !b.answered.IsZero() && !b.rested && now.Sub(b.answered) > m.TTL
}
