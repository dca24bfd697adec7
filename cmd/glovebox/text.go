package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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

// plural writes a number of things.
func plural[T int | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// dollars writes millionths of a dollar.
func dollars(micros int64) string {
	if micros == 0 {
		return "$0"
	}
	return fmt.Sprintf("$%.4f", float64(micros)/1e6)
}

// grouped writes a number that is not negative with commas: 20,000,000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// parseSize reads bytes as size writes them, also without a unit and with the
// short forms K, M, G and T.
func parseSize(s string) (int64, error) {
	for i, unit := range byteUnits {
		for _, suffix := range []string{unit, strings.TrimSuffix(unit, "iB")} {
			if i == 0 && suffix != "B" {
				continue
			}
			digits, ok := strings.CutSuffix(s, suffix)
			if !ok {
				continue
			}
			if n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64); err == nil && n >= 0 && n < 1<<20 {
				return int64(n * math.Pow(1024, float64(i))), nil
			}
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes, such as 2GiB", s)
}

// size writes bytes in the largest unit that fits.
func size(n int64) string {
	v, i := float64(n), 0
	for v >= 1024 && i < len(byteUnits)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, byteUnits[i])
}
