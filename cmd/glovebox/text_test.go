package main

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"0": 0, "1024": 1024, "1KiB": 1024, "2M": 2 << 20, "1.5GiB": 3 << 29, "3 TiB": 3 << 40, "7B": 7} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1", "1XB", "GiB", "NaN", "infG", "1e99T", "9999999999999999999"} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		shorten("abcdef", 4): "abc…", shorten("äöü", 3): "äöü", dollars(1_234_567): "$1.2346", dollars(0): "$0",
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(20_000_000): "20,000,000",
		size(0): "0 B", size(1536): "1.5 KiB", size(3 << 30): "3.0 GiB",
		age(59 * time.Second): "59s", age(90 * time.Minute): "1h", age(72 * time.Hour): "3d",
		line("a\x1b[31m\nb\u202e"): "a b", plain("a\x07\nb"): "a\nb",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
