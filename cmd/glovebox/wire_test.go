//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/config"
)

// TestCheckModel: a server that leaves its jobs to workers elsewhere knows
// neither their keys nor their default, and may not refuse what they can run.
func TestCheckModel(t *testing.T) {
	for _, key := range []string{"GLOVEBOX_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(key, "")
	}
	for _, tt := range []struct {
		name            string
		here, elsewhere string // part of the error; empty: accepted
	}{
		{"", "no model is named", ""},
		{"anthropic:x", "ANTHROPIC_API_KEY is not set", ""},
		{"nonsense", "not the name of a model", "not the name of a model"},
		{"replay:/etc/passwd", "recording", "recording"},
	} {
		for concurrency, want := range map[int]string{2: tt.here, 0: tt.elsewhere} {
			cfg := config.Default()
			cfg.Data, cfg.Concurrency = t.TempDir(), concurrency
			err := (&backend{cfg: cfg}).checkModel(tt.name, true)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q with %d jobs at once: %v; want %q", tt.name, concurrency, err, want)
			}
		}
	}
}
