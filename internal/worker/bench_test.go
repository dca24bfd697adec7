package worker

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/artifact"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/fake"
)

// BenchmarkArtifact packs a workspace of 10,000 files and 120 MB out of a
// sandbox into a blob that is on disk. Package artifact has the same without
// a sandbox, beside archive/zip.
func BenchmarkArtifact(b *testing.B) {
	d, err := fake.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	id := sandbox.ID(glovebox.NewID())
	if err := d.Create(b.Context(), sandbox.Spec{ID: id}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Destroy(context.Background(), id) })
	total := fillWorkspace(b, filepath.Join(d.Root(id), guest.Workspace))
	conn, err := d.Dial(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	c, err := guest.NewClient(b.Context(), conn, guest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	b.SetBytes(total)
	for b.Loop() {
		f, err := os.Create(filepath.Join(b.TempDir(), "x.zip"))
		if err != nil {
			b.Fatal(err)
		}
		m, err := artifact.Pack(b.Context(), c, guest.Workspace, f, artifact.Options{})
		if err != nil || len(m.Files) != 10_000 {
			b.Fatal(len(m.Files), err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// fillWorkspace writes 10,000 files of 12 KB that compress as source code
// does, and returns their size.
func fillWorkspace(b *testing.B, dir string) int64 {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", rng.Uint64()>>(4*rng.IntN(14)))
	}
	var total int64
	for i := range 10_000 {
		var buf bytes.Buffer
		for buf.Len() < 12_000 {
			buf.WriteString(words[int(rng.ExpFloat64()*300)%len(words)])
			buf.WriteString([]string{" ", " ", "(", ") {\n\t", ";\n", ", ", " = "}[rng.IntN(7)])
		}
		name := filepath.Join(dir, fmt.Sprintf("src/d%03d", i/100), fmt.Sprintf("f%05d.js", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, buf.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
		total += int64(buf.Len())
	}
	return total
}
