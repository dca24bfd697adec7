package tui

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// style is how something looks. Where there is no colour it adds nothing.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint applies styles to s, if p has colour.
func (p *Printer) paint(s string, styles ...style) string {
	if !p.o.Color || s == "" {
		return s
	}
	codes := make([]string, len(styles))
	for i, st := range styles {
		codes[i] = string(st)
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + s + "\x1b[m"
}

// fit cuts s to the width of the terminal, less the given indent.
func (p *Printer) fit(s string, indent int) string {
	return ansi.Truncate(s, max(20, p.o.Width()-indent), "…")
}

// wrap breaks prose at the width of the terminal, less the given indent.
func (p *Printer) wrap(s string, indent int) []string {
	return strings.Split(ansi.Wordwrap(s, max(20, min(100, p.o.Width())-indent), " -"), "\n")
}

// duration shows d as people read it: 240ms, 3.1s, 2m05s, 1h02m.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// millis is duration of a number of milliseconds.
func millis(ms int64) string { return duration(time.Duration(ms) * time.Millisecond) }

// count shows a number as people read it: 950, 12.3k, 4.56M.
func count(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.2fM", float64(n)/1e6)
}

// plural shows a number of things.
func plural[T int | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size shows bytes: 312 B, 4.5 KiB, 1.2 MiB.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}

// ColorWanted reports whether to use colour on f, which is a terminal or not:
// NO_COLOR and TERM=dumb turn it off.
func ColorWanted(f *os.File, terminal bool) bool {
	return f != nil && terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
