package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/api"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
)

// world is a server and a client of it, with something bad in between.
type world struct {
	t     *testing.T
	store *sqlite.Store
	blobs *blobs
	c     *client.Client
}

func newWorld(t *testing.T, between func(http.Handler) http.Handler, opts ...client.Option) *world {
	t.Helper()
	st, err := sqlite.Open(filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	w := &world{t: t, store: st, blobs: &blobs{m: map[string][]byte{}}}
	a := api.New(api.Options{Store: st, Blobs: w.blobs, DefaultModel: "replay:x", Version: "1.2", AllowedHosts: []string{"example.com"},
		MemoryOptions: func(context.Context, string) (memory.Options, error) { return memory.Options{}, nil }})
	var h http.Handler = a
	if between != nil {
		h = between(a)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() { a.Drain(); srv.CloseClientConnections(); srv.Close() })
	if w.c, err = client.New(srv.URL, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.c.Close)
	return w
}

func (w *world) schedule(task string) string {
	w.t.Helper()
	a, err := w.c.Schedule(w.t.Context(), glovebox.Submission{Task: task})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.JobID
}

func (w *world) claim() store.Lease {
	w.t.Helper()
	l, err := w.store.Claim(context.Background(), "w", time.Minute)
	if err != nil || l == nil {
		w.t.Fatal(l, err)
	}
	return *l
}

func (w *world) append(l store.Lease, events ...glovebox.Event) {
	w.t.Helper()
	if _, err := w.store.Append(context.Background(), l, events); err != nil {
		w.t.Error(err)
	}
}

func (w *world) complete(l store.Lease, data []byte) {
	w.t.Helper()
	key := blob.JobPrefix(l.JobID) + "artifact.zip"
	info, err := w.blobs.Put(context.Background(), key, bytes.NewReader(data), 1<<30)
	if err != nil {
		w.t.Fatal(err)
	}
	w.append(l, glovebox.NewEvent(time.Now(), glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: glovebox.Artifact{Blob: key, SHA256: info.SHA256, Size: info.Size, Files: 1}}),
		glovebox.NewEvent(time.Now(), glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusComplete}))
}

func notice(i int) glovebox.Event {
	return glovebox.NewEvent(time.Now(), glovebox.EventNotice, glovebox.Notice{Text: fmt.Sprint(i)})
}

type blobs struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (b *blobs) get(key string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m[key]
}

func (b *blobs) Put(_ context.Context, key string, r io.Reader, limit int64) (blob.Info, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return blob.Info{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[key] = data
	sum := sha256.Sum256(data)
	return blob.Info{Key: key, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

type blobReader struct{ *bytes.Reader }

func (blobReader) Close() error { return nil }

func (b *blobs) Open(_ context.Context, key string) (blob.Reader, error) {
	if data := b.get(key); data != nil {
		return blobReader{bytes.NewReader(data)}, nil
	}
	return nil, glovebox.Errorf(glovebox.CodeNotFound, "no blob %q", key)
}

func (b *blobs) DeletePrefix(_ context.Context, prefix string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.m {
		if strings.HasPrefix(k, prefix) {
			delete(b.m, k)
		}
	}
	return nil
}
