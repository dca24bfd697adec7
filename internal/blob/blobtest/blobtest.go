// Package blobtest proves that a blob.Store keeps its promises.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

// Exercise runs the suite. open returns a new, empty store, and again that
// same one, as another process would open it.
func Exercise(t *testing.T, open func(t *testing.T) (s, again blob.Store)) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s, again blob.Store)
	}{
		{"PutAndOpen", testPutAndOpen},
		{"Replace", testReplace},
		{"Seek", testSeek},
		{"FailedPut", testFailedPut},
		{"Limit", testLimit},
		{"Keys", testKeys},
		{"DeletePrefix", testDeletePrefix},
		{"List", testList},
		{"Concurrent", testConcurrent},
		{"ReaderOutlivesDelete", testReaderOutlivesDelete},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, again := open(t)
			c.test(t, s, again)
		})
	}
}

func put(t *testing.T, s blob.Store, key, data string) blob.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return info
}

func get(t *testing.T, s blob.Store, key string) string {
	t.Helper()
	r, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("open %s: %v", key, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != r.Size() {
		t.Fatalf("read %s: %d of %d bytes, %v", key, len(b), r.Size(), err)
	}
	return string(b)
}

func wantNone(t *testing.T, s blob.Store, key string) {
	t.Helper()
	if r, err := s.Open(t.Context(), key); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("open %s: %v, %v", key, r, err)
	}
}

// testList is about stores that can list.
func testList(t *testing.T, s, again blob.Store) {
	l, ok := again.(blob.Lister)
	if !ok {
		t.Skip("it is no blob.Lister")
	}
	list := func(prefix string) string {
		t.Helper()
		entries, err := l.List(t.Context(), prefix)
		if err != nil {
			t.Fatalf("list %s: %v", prefix, err)
		}
		var names []string
		for _, e := range entries {
			if age := time.Since(e.Modified); age < -time.Minute || age > time.Minute {
				t.Errorf("%s was modified %s ago", e.Name, age)
			}
			names = append(names, e.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := list("jobs/"); got != "" {
		t.Errorf("of an empty store: %s", got)
	}
	put(t, s, "jobs/a/b.zip", "x")
	put(t, s, "jobs/a/c/d", "x")
	put(t, s, "jobs/k", "x")
	put(t, s, "other/x", "x")
	for prefix, want := range map[string]string{"jobs/": "a/ k", "jobs/a/": "b.zip c/", "jobs/k/": "", "none/": ""} {
		if got := list(prefix); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
	for _, bad := range []string{"", "jobs", "/", "../", "jobs/../"} {
		if _, err := l.List(t.Context(), bad); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("list %q: %v", bad, err)
		}
	}
	if err := s.DeletePrefix(t.Context(), "jobs/a/"); err != nil {
		t.Fatal(err)
	}
	if got := list("jobs/"); got != "k" {
		t.Errorf("after the deletion: %s", got)
	}
}

func testPutAndOpen(t *testing.T, s, again blob.Store) {
	for _, data := range []string{"", "x", strings.Repeat("0123456789", 300_000)} {
		sum := sha256.Sum256([]byte(data))
		want := blob.Info{Key: "jobs/a/b.zip", Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		if got := put(t, s, want.Key, data); got != want {
			t.Errorf("info is %v, want %v", got, want)
		}
		if get(t, s, want.Key) != data || get(t, again, want.Key) != data {
			t.Error("other data")
		}
	}
	wantNone(t, s, "jobs/a/c.zip")
	wantNone(t, s, "jobs/a")
}

func testReplace(t *testing.T, s, _ blob.Store) {
	put(t, s, "k", "old")
	r, err := s.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, s, "k", "new and longer")
	if b, err := io.ReadAll(r); err != nil || string(b) != "old" {
		t.Errorf("an open reader reads %q, %v", b, err)
	}
	if got := get(t, s, "k"); got != "new and longer" {
		t.Errorf("got %q", got)
	}
}

func testSeek(t *testing.T, s, _ blob.Store) {
	put(t, s, "k", "0123456789")
	r, err := s.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Seek(-3, io.SeekEnd); err != nil || n != 7 {
		t.Errorf("seek: %d, %v", n, err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "789" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := r.Seek(2, io.SeekStart); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(io.LimitReader(r, 3)); err != nil || string(b) != "234" {
		t.Errorf("read %q, %v", b, err)
	}
}

func testFailedPut(t *testing.T, s, _ blob.Store) {
	put(t, s, "old", "old")
	broken := errors.New("broken")
	for _, key := range []string{"old", "new"} {
		_, err := s.Put(t.Context(), key, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), 100)
		if !errors.Is(err, broken) {
			t.Errorf("error is %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Put(ctx, key, strings.NewReader("x"), 100); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
	if got := get(t, s, "old"); got != "old" {
		t.Errorf("got %q", got)
	}
	wantNone(t, s, "new")
}

func testLimit(t *testing.T, s, _ blob.Store) {
	put(t, s, "k", "12345")
	if _, err := s.Put(t.Context(), "k", strings.NewReader("123456"), 5); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Errorf("error is %v", err)
	}
	if _, err := s.Put(t.Context(), "k", bytes.NewReader(make([]byte, 1<<20)), 0); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Errorf("error is %v", err)
	}
	if got := get(t, s, "k"); got != "12345" {
		t.Errorf("got %q", got)
	}
	if _, err := s.Put(t.Context(), "empty", strings.NewReader(""), 0); err != nil {
		t.Errorf("nothing fits into a limit of 0: %v", err)
	}
}

func testKeys(t *testing.T, s, _ blob.Store) {
	for _, key := range []string{"", "/", "/x", "x/", "a//b", ".", "..", "../x", "a/../b", ".tmp/x", ".hidden", "a/.b", "a b", "ä", "a\x00b", "a\nb", `a\b`,
		strings.Repeat("x", 101), "1/2/3/4/5/6/7/8/9"} {
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), 1); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("put %q: %v", key, err)
		}
		if _, err := s.Open(t.Context(), key); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("open %q: %v", key, err)
		}
		if err := s.DeletePrefix(t.Context(), key+"/"); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("delete %q: %v", key+"/", err)
		}
	}
	if err := s.DeletePrefix(t.Context(), "x"); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("a prefix without a slash: %v", err)
	}
	put(t, s, "1/2/3/4/5/6/7/"+strings.Repeat("x", 100), "x")
}

func testDeletePrefix(t *testing.T, s, _ blob.Store) {
	for _, k := range []string{"jobs/a/1", "jobs/a/x/2", "jobs/ab/3", "jobs/a.zip", "other/a/4"} {
		put(t, s, k, k)
	}
	for range 2 { // none is no error
		if err := s.DeletePrefix(t.Context(), "jobs/a/"); err != nil {
			t.Error(err)
		}
	}
	if err := s.DeletePrefix(t.Context(), "jobs/a.zip/"); err != nil {
		t.Error(err)
	}
	wantNone(t, s, "jobs/a/1")
	wantNone(t, s, "jobs/a/x/2")
	for _, k := range []string{"jobs/ab/3", "jobs/a.zip", "other/a/4"} {
		if get(t, s, k) != k {
			t.Errorf("%s changed", k)
		}
	}
	put(t, s, "jobs/a/1", "again")
}

// Writers of one key, each with its own data, readers and deleters at once:
// what is read is always one writer's whole data.
func testConcurrent(t *testing.T, s, again blob.Store) {
	var wg sync.WaitGroup
	for i := range 8 {
		data := strings.Repeat(fmt.Sprint(i), 50_000)
		wg.Go(func() {
			for n := range 20 {
				if _, err := s.Put(t.Context(), "jobs/x/k", strings.NewReader(data), 1<<20); err != nil {
					t.Error(err)
				}
				if n%7 == 0 {
					if err := again.DeletePrefix(t.Context(), "jobs/x/"); err != nil {
						t.Error(err)
					}
				}
				r, err := again.Open(t.Context(), "jobs/x/k")
				if err != nil {
					if glovebox.CodeOf(err) != glovebox.CodeNotFound {
						t.Error(err)
					}
					continue
				}
				b, err := io.ReadAll(r)
				r.Close()
				if err != nil || len(b) != 50_000 || strings.Trim(string(b), string(b[:1])) != "" {
					t.Errorf("read %d mixed bytes, %v", len(b), err)
				}
			}
		})
	}
	wg.Wait()
}

func testReaderOutlivesDelete(t *testing.T, s, _ blob.Store) {
	put(t, s, "p/k", "data")
	r, err := s.Open(t.Context(), "p/k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.DeletePrefix(t.Context(), "p/"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "data" {
		t.Errorf("read %q, %v", b, err)
	}
}
