//go:build linux

package display

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// BenchmarkScreenshotHost takes pictures, 1280x800 as PNG, of a terminal full
// of text on a display outside of any sandbox, beside what people use for it.
func BenchmarkScreenshotHost(b *testing.B) {
	s := newScreen(b, true)
	s.start("xterm", "-T", "text", "-geometry", "150x45", "-e", "sh", "-c", "ls -lR /usr/lib | head -n 400; sleep 1000")
	s.window("text")
	for changed := true; changed; {
		var err error
		if changed, err = s.WaitChange(b.Context(), guest.Rect{}, "", 300*time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
	timed := func(name string, f func(b *testing.B) error) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if err := f(b); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	timed("glovebox", func(b *testing.B) error {
		_, err := s.Screenshot(b.Context(), guest.ShotRequest{})
		return err
	})
	out := filepath.Join(b.TempDir(), "shot.png")
	for name, args := range map[string][]string{"scrot": {"scrot", "-o", out}, "import": {"import", "-window", "root", out}} {
		timed(name, func(b *testing.B) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				b.Skip("no peer: " + args[0] + " is not installed (scrot; imagemagick)")
			}
			cmd := exec.CommandContext(b.Context(), path, args[1:]...)
			cmd.Env = append(os.Environ(), "DISPLAY="+s.name)
			return cmd.Run()
		})
	}
}
