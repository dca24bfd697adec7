package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/storetest"
)

var harness = storetest.Harness{
	Place: func(tb testing.TB) string {
		tb.Helper()
		return filepath.Join(tb.TempDir(), "data", "glovebox.db")
	},
	Open: func(place string, now func() time.Time) (store.Store, error) {
		return Open(place, Options{Now: now})
	},
}

func TestMain(m *testing.M) { storetest.Main(m, harness) }

func TestStore(t *testing.T) { storetest.Exercise(t, harness) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, harness) }

func mustOpen(tb testing.TB, path string) *Store {
	tb.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestModes(t *testing.T) {
	t.Parallel()
	path := harness.Place(t)
	s := mustOpen(t, path)
	if _, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", "x"), store.IdempotencyKey{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600,
	} {
		if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// A path may hold what a URL or a DSN gives a meaning to.
func TestOddPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a ?b#c%20&d=e", "x.db")
	s := mustOpen(t, path)
	var file string
	if err := s.read.QueryRow("SELECT file FROM pragma_database_list").Scan(&file); err != nil || file != path {
		t.Errorf("file is %q, %v", file, err)
	}
}

// limitPages bounds the size of the database, "now" to what it has. That stands
// for a full disk: SQLite reports both in the same way.
func limitPages(t *testing.T, s *Store, pages string) {
	t.Helper()
	if err := s.w.do(t.Context(), func(x *txn) error {
		if pages == "now" {
			pages = "1" // SQLite does not go below what there is
		}
		_, err := x.w.conn.ExecContext(context.Background(), "PRAGMA max_page_count = "+pages)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, harness.Place(t))
	big := strings.Repeat("x", 1<<20)
	first, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", "first"), store.IdempotencyKey{})
	if err != nil {
		t.Fatal(err)
	}
	limitPages(t, s, "now")
	var wg sync.WaitGroup
	for range 8 { // in batches too
		wg.Go(func() {
			_, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", big), store.IdempotencyKey{})
			if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "disk is full") {
				t.Errorf("error is %v", err)
			}
		})
	}
	wg.Wait()
	page, err := s.ListJobs(t.Context(), store.JobFilter{Limit: 100})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != first.ID {
		t.Errorf("jobs are %v, %v", page.Jobs, err)
	}
	limitPages(t, s, "1000000")
	if _, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", big), store.IdempotencyKey{}); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if _, err := storetest.CheckLog(t.Context(), s, first.ID); err != nil {
		t.Error(err)
	}
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a database. "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	if err == nil || !strings.Contains(err.Error(), "damaged or not a database") {
		t.Errorf("error is %v", err)
	}
}

func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := harness.Place(t)
	s := mustOpen(t, path)
	var id string
	for range 100 {
		j, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", strings.Repeat("x", 1000)), store.IdempotencyKey{})
		if err != nil {
			t.Fatal(err)
		}
		id = j.ID
	}
	s.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fi, _ := f.Stat()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xAA}, int(fi.Size())-4096), 4096); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s, err = Open(path, Options{})
	if err == nil {
		defer s.Close()
		_, err = s.Job(t.Context(), "", id)
	}
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error is %v", err)
	}
}

func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	path := harness.Place(t)
	s := mustOpen(t, path)
	if err := s.w.do(t.Context(), func(x *txn) error {
		_, err := x.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := Open(path, Options{})
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("error is %v", err)
	}
}

func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "sub", "x.db"), Options{})
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("error is %v", err)
	}
}

// Processes that start at the same moment make the tables once.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := harness.Place(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { mustOpen(t, path) })
	}
	wg.Wait()
}

// The cache stays within its bound and never gives an old state.
func TestCacheBound(t *testing.T) {
	t.Parallel()
	s, err := Open(harness.Place(t), Options{CacheBytes: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids []string
	for range 100 {
		j, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", strings.Repeat("x", 1000)), store.IdempotencyKey{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	for _, id := range ids {
		if j, err := s.Job(t.Context(), "t", id); err != nil || j.ID != id || len(j.Task) != 1000 {
			t.Fatal(err)
		}
	}
	if s.cache.used > 50_000 || s.cache.order.Len() != len(s.cache.byID) || s.cache.order.Len() == 0 {
		t.Errorf("%d bytes in %d entries", s.cache.used, s.cache.order.Len())
	}
}

// BenchmarkOneFlushPerRequest is the peer of BenchmarkStore/CreateJob: each
// job in a transaction of its own, as without group commit.
func BenchmarkOneFlushPerRequest(b *testing.B) {
	s := mustOpen(b, harness.Place(b))
	var mu sync.Mutex
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			_, _, err := s.CreateJob(b.Context(), storetest.NewCreated("t", "Build me a todo app in React"), store.IdempotencyKey{})
			mu.Unlock()
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// The same with a file system that is really full, where that can be made.
func TestFileSystemFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("can't mount a small file system: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := mustOpen(t, filepath.Join(dir, "x.db"))
	var made []string
	var failed error
	for range 100 {
		j, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", strings.Repeat("x", 50_000)), store.IdempotencyKey{})
		if err != nil {
			failed = err
			break
		}
		made = append(made, j.ID)
	}
	if glovebox.CodeOf(failed) != glovebox.CodeUnavailable || !strings.Contains(failed.Error(), "disk is full") || len(made) == 0 {
		t.Fatalf("after %d jobs: %v", len(made), failed)
	}
	for _, id := range made {
		if _, err := storetest.CheckLog(t.Context(), s, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	j, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", strings.Repeat("x", 50_000)), store.IdempotencyKey{})
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	s.Close()
	s = mustOpen(t, filepath.Join(dir, "x.db"))
	for _, id := range append(made, j.ID) {
		if _, err := storetest.CheckLog(t.Context(), s, id); err != nil {
			t.Fatal(err)
		}
	}
}

// Close leaves one file (and the lock), which is all that a backup needs.
func TestCloseFoldsTheLog(t *testing.T) {
	t.Parallel()
	path := harness.Place(t)
	s := mustOpen(t, path)
	j, _, err := s.CreateJob(t.Context(), storetest.NewCreated("t", "x"), store.IdempotencyKey{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Job(t.Context(), "t", j.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the write-ahead log is left: %v", err)
	}
}

// L1 rests on these two.
func TestCommitsAreFlushed(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, harness.Place(t))
	var synchronous int
	var journal string
	if err := s.w.do(t.Context(), func(x *txn) error {
		return errors.Join(x.queryRow("PRAGMA synchronous", nil, &synchronous), x.queryRow("PRAGMA journal_mode", nil, &journal))
	}); err != nil {
		t.Fatal(err)
	}
	if synchronous != 2 || journal != "wal" { // 2 is FULL
		t.Errorf("synchronous is %d, journal mode is %q", synchronous, journal)
	}
}
