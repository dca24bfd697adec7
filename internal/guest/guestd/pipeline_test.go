//go:build linux

package guestd_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// TestFilesTogether writes and reads files of all sizes at once, over one
// pipeline of each kind, between requests that are refused or given up:
// every answer has to reach its own request.
func TestFilesTogether(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	write(t, c, map[string]string{"file": "x"})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { oneOfMany(t, c, i) })
		wg.Go(func() {
			_, _, err := c.ReadFile(gone, "file", 0, 10)
			wantCode(t, err, glovebox.CodeUnavailable)
			going, cancel := context.WithCancel(t.Context())
			go cancel() // before, while or after it is answered
			if got, _, err := c.ReadFile(going, "file", 0, 10); err == nil && string(got) != "x" || err != nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func oneOfMany(t *testing.T, c *guest.Client, i int) { //nolint:thelper // it is the test, many times at once
	ctx := t.Context()
	sizes := []int{0, 1, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000}
	want := bytes.Repeat([]byte{byte('a' + i%26)}, sizes[i%len(sizes)])
	name := fmt.Sprintf("many/d%d/f%d", i%5, i)
	if err := c.WriteFile(ctx, name, want, 0); err != nil {
		t.Error(err)
	}
	wantCode(t, c.WriteFile(ctx, "file/below", want, 0), glovebox.CodeInvalid)
	_, _, err := c.ReadFile(ctx, fmt.Sprintf("missing%d", i), 0, 100)
	wantCode(t, err, glovebox.CodeNotFound)
	got, size, err := c.ReadFile(ctx, name, 0, 1<<20)
	if err != nil || !bytes.Equal(got, want) || size != int64(len(want)) {
		t.Errorf("%s: %d of %d bytes, size %d, %v", name, len(got), len(want), size, err)
	}
	if got, _, err := c.ReadFile(ctx, name, 1, 10); err != nil || !bytes.Equal(got, want[min(1, len(want)):min(11, len(want))]) {
		t.Errorf("%s: a part of %d bytes, %v", name, len(got), err)
	}
}
