package memory

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// maxControlFiles is how many changed files the model is told by name.
const maxControlFiles = 40

// controlText tells the model that mouse and keyboard changed hands. Names of
// files and titles of windows are quoted: they are what anyone chose to call them.
func controlText(c glovebox.ControlChanged) glovebox.Block {
	if c.Control == glovebox.ControlUser {
		return noticeText("A person has taken over the mouse and the keyboard of the desktop. Tools that use them, and finish, wait until they are given back. " +
			"Files, commands and everything else work as before: go on with what you can do without the screen. The person may change files, too.")
	}
	var b strings.Builder
	b.WriteString("The person has given mouse and keyboard back. The screen may look different now: take a new screenshot before you use it.")
	switch {
	case c.Commit == "":
		b.WriteString(" Which files changed meanwhile is not known.")
	case len(c.Changes) == 0:
		b.WriteString(" No file of the workspace changed meanwhile.")
	default:
		b.WriteString("\nFiles that changed meanwhile, by the person or by your own commands:")
		for _, f := range c.Changes[:min(len(c.Changes), maxControlFiles)] {
			b.WriteString("\n- " + strconv.Quote(f.Path))
			if f.Added >= 0 && f.Deleted >= 0 {
				fmt.Fprintf(&b, " (+%d -%d lines)", f.Added, f.Deleted)
			}
		}
		if more := len(c.Changes) - maxControlFiles; more > 0 {
			fmt.Fprintf(&b, "\n- and %d more", more)
		}
	}
	for _, w := range []struct {
		what   string
		titles []string
	}{{"opened", c.Opened}, {"closed", c.Closed}} {
		if len(w.titles) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nWindows %s:", w.what)
		for i, t := range w.titles {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(" " + strconv.Quote(t))
		}
	}
	return noticeText(b.String())
}
