package main

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/tui"
)

// plain makes foreign text safe for a terminal.
func plain(s string) string { return tui.Clean(s) }

// line makes foreign text one safe line.
func line(s string) string { return tui.Line(s) }

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// age says roughly how long ago something was.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// dollars writes millionths of a dollar.
func dollars(micros int64) string { return fmt.Sprintf("$%.4f", float64(micros)/1e6) }

// size writes bytes in the largest unit that fits.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
