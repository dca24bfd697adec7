package memory

import (
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// head returns the first blocks of the first message: what is particular to
// this job, and the task, word for word, in a block of its own.
func head(c glovebox.Created) []glovebox.Block {
	var b strings.Builder
	switch f := c.Files; {
	case f == nil:
		b.WriteString("The workspace is empty.")
	case f.GitURL != "":
		b.WriteString("The workspace holds a clone of " + f.GitURL)
		if f.GitRef != "" {
			b.WriteString(" at " + f.GitRef)
		}
		b.WriteString(".")
	default:
		b.WriteString("The workspace holds the files that the user sent along.")
	}
	switch c.Egress.Mode {
	case glovebox.EgressNone:
		b.WriteString(" This job may reach nothing outside its machine, package registries included.")
	case glovebox.EgressOnly:
		b.WriteString(" Outside its machine this job may reach only: " + strings.Join(c.Egress.Allow, ", ") + ".")
	case glovebox.EgressExtend:
		b.WriteString(" Beside package registries this job may reach: " + strings.Join(c.Egress.Allow, ", ") + ".")
	}
	b.WriteString(" The task, in the user's own words, follows.")
	return []glovebox.Block{glovebox.Text(b.String()), glovebox.Text(c.Task)}
}
