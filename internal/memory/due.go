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

// Due returns what is to be done before the next request is made at now.
func (b *Builder) Due(m Marks, now time.Time) Due {
	return Due{}
}
