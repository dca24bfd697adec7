package recall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// log is a job's log for tests: an event a minute.
type log struct{ events []glovebox.Event }

var began = time.Date(2026, 5, 8, 10, 0, 0, 0, time.UTC)

func (l *log) add(typ glovebox.EventType, data any) int64 {
	e := glovebox.NewEvent(began.Add(time.Duration(len(l.events))*time.Minute), typ, data)
	e.Seq = int64(len(l.events) + 1)
	l.events = append(l.events, e)
	return e.Seq
}

func (l *log) say(text string) int64 {
	return l.add(glovebox.EventUserMessage, glovebox.UserMessage{Text: text})
}

func (l *log) call(id, tool, input string) int64 {
	return l.add(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Role: glovebox.RoleAssistant,
		Blocks: []glovebox.Block{{Type: glovebox.BlockReasoning, Text: "xyzzy unsaid"}, {Type: glovebox.BlockToolUse, CallID: id, Name: tool, Input: []byte(input)}}}})
}

func (l *log) result(id, tool, text string) int64 {
	return l.add(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: tool, Content: []glovebox.Block{glovebox.Text(text)}})
}

// indexed returns the index of a log.
func (l *log) indexed(t testing.TB) *Index {
	t.Helper()
	x := newIndex(t, Options{})
	must(t, x.Add(t.Context(), l.events))
	return x
}

func search(t testing.TB, x *Index, q Query) Result {
	t.Helper()
	r, err := x.Search(t.Context(), q)
	must(t, err)
	return r
}

// eventsOf returns the events of hits, in order, as text.
func eventsOf(r Result) string {
	var s []string
	for _, h := range r.Hits {
		s = append(s, fmt.Sprint(h.Event))
	}
	return strings.Join(s, " ")
}

func TestAdd(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 20 {
		l.say(fmt.Sprintf("message number w%d of the day", i+1))
	}
	x := newIndex(t, Options{})
	must(t, x.Add(t.Context(), nil))
	must(t, x.Add(t.Context(), l.events[:5]))
	must(t, x.Add(t.Context(), l.events[:3])) // nothing new
	must(t, x.Add(t.Context(), l.events[2:9]))
	if x.Seq() != 9 {
		t.Errorf("seq %d", x.Seq())
	}
	for _, bad := range [][]glovebox.Event{l.events[10:], {l.events[9], l.events[11]}} {
		if err := x.Add(t.Context(), bad); glovebox.CodeOf(err) != glovebox.CodeInternal {
			t.Errorf("a gap: %v", err)
		}
	}
	damagedEvent := l.events[9]
	damagedEvent.Data = []byte(`{"text":`)
	must(t, x.Add(t.Context(), []glovebox.Event{damagedEvent, l.events[10]}))
	if got := eventsOf(search(t, x, Query{Words: "w10 w11"})); got != "11" {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Add(ctx, l.events[11:]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if x.Seq() != 11 {
		t.Errorf("seq %d", x.Seq())
	}
}

// TestReopened: what was added is there after a restart, also through a second
// index of the same file.
func TestReopened(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.say("the first is about herons")
	l.call("c1", "read_file", `{"path":"/workspace/src/bird.go"}`)
	l.result("c1", "read_file", "package bird")
	path := filepath.Join(t.TempDir(), "a", "job.db")
	open := func(job string) *Index {
		x, err := Open(path, job, Options{})
		must(t, err)
		return x
	}
	x := open("job")
	must(t, x.Add(t.Context(), l.events[:2]))
	second := open("job")
	must(t, second.Add(t.Context(), l.events))
	must(t, x.Add(t.Context(), l.events))
	if x.Seq() != 3 {
		t.Errorf("seq %d", x.Seq())
	}
	must(t, second.Close())
	must(t, x.Close())
	x = open("job")
	if x.Seq() != 3 || eventsOf(search(t, x, Query{File: "bird.go"})) != "3" {
		t.Errorf("after reopening: %d, %v", x.Seq(), search(t, x, Query{File: "bird.go"}))
	}
	must(t, x.Close())
	x = open("another")
	if x.Seq() != 0 {
		t.Errorf("another job's index was taken over: %d", x.Seq())
	}
	must(t, x.Close())
}

// TestDamaged: whatever is in the file, the index can be used afterwards.
func TestDamaged(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 300 {
		l.say(fmt.Sprintf("the plover number p%d rests here, %s", i, strings.Repeat("and more of it ", 20)))
	}
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	x, err := Open(whole, "job", Options{})
	must(t, err)
	must(t, x.Add(t.Context(), l.events))
	must(t, x.Close())
	data, err := os.ReadFile(whole)
	must(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	cases := map[string][]byte{"empty": {}, "text": []byte("hello"), "cut": data[:len(data)/2], "cut in the first page": data[:50],
		"noise": noise(20_000), "head only": append(bytes.Clone(data[:100]), noise(8000)...)}
	for i := range 6 {
		b := bytes.Clone(data)
		at := 4096 * (1 + r.IntN(len(b)/4096-1))
		copy(b[at:], noise(4096))
		cases[fmt.Sprintf("page %d of noise (%d)", at/4096, i)] = b
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "job.db")
			must(t, os.WriteFile(path, b, 0o600))
			k := &Keeper{Dir: filepath.Dir(path)}
			j := k.Job("job", sourceOf(l), nil)
			defer j.Close()
			res, err := j.Search(t.Context(), Query{Words: "p250"})
			must(t, err)
			if len(res.Hits) == 0 || res.Hits[0].Event != 251 {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func sourceOf(l *log) Source {
	return func(_ context.Context, after int64, limit int) ([]glovebox.Event, error) {
		return l.events[min(int(after), len(l.events)):min(int(after)+limit, len(l.events))], nil
	}
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	k := &Keeper{Dir: filepath.Join(t.TempDir(), "recall")}
	id := glovebox.NewID()
	must(t, k.Remove(id)) // there is none yet
	l := &log{}
	l.say("curlews")
	j := k.Job(id, sourceOf(l), nil)
	must(t, j.Sync(t.Context()))
	l.say("dunlins")
	r, err := j.Search(t.Context(), Query{Words: "dunlin"})
	must(t, err)
	if eventsOf(r) != "2" {
		t.Errorf("got %v", r)
	}
	must(t, j.Close())
	must(t, j.Close())
	if _, err := j.Search(t.Context(), Query{Words: "x"}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("closed: %v", err)
	}
	must(t, k.Remove(id))
	if entries, err := os.ReadDir(k.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	if err := k.Remove("../x"); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("a foreign path: %v", err)
	}
	broken := k.Job(id, func(context.Context, int64, int) ([]glovebox.Event, error) { return nil, errors.New("no log") }, nil)
	defer broken.Close()
	if _, err := broken.Search(t.Context(), Query{Words: "x"}); err == nil || err.Error() != "no log" {
		t.Errorf("got %v", err)
	}
}

// TestInItsPlace: what is in the place of an index and is none makes way for
// it. No link is followed, and what somebody keeps in a directory is kept.
func TestInItsPlace(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path, outside string) error{
		"an empty directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a directory": func(path, _ string) error {
			return os.MkdirAll(filepath.Join(path, "kept", "below"), 0o700)
		},
		"a link to a file": func(path, outside string) error {
			return os.Symlink(filepath.Join(outside, "file"), path)
		},
		"a link to a directory": func(path, outside string) error { return os.Symlink(outside, path) },
		"a link to nothing":     func(path, outside string) error { return os.Symlink(filepath.Join(outside, "new"), path) },
		"a directory beside": func(path, _ string) error {
			return errors.Join(os.Mkdir(path+"-wal", 0o700), os.MkdirAll(path+"-shm/kept", 0o700), os.Mkdir(path+"-journal", 0o700))
		},
		"a socket": func(path, _ string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, outside, id := &Keeper{Dir: t.TempDir()}, t.TempDir(), glovebox.NewID()
			must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("theirs"), 0o600))
			must(t, put(filepath.Join(k.Dir, id+".db"), outside))
			l := &log{}
			l.say("curlews")
			j := k.Job(id, sourceOf(l), nil)
			r, err := j.Search(t.Context(), Query{Words: "curlew"})
			must(t, err)
			if eventsOf(r) != "1" {
				t.Errorf("got %v", r)
			}
			must(t, j.Close())
			if b, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(b) != "theirs" {
				t.Errorf("a file elsewhere is %q, %v", b, err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Errorf("elsewhere there are %v, %v", entries, err)
			}
			must(t, k.Remove(id))
			kept, err := filepath.Glob(filepath.Join(k.Dir, "*", "kept"))
			must(t, err)
			entries, err := os.ReadDir(k.Dir)
			must(t, err)
			if len(entries) != len(kept) || (name == "a directory" || name == "a directory beside") != (len(kept) == 1) {
				t.Errorf("left: %v, of which %v are somebody's", entries, kept)
			}
		})
	}
}

func TestCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(filepath.Join(file, "job.db"), "job", Options{}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestConcurrent: searches see a prefix of the log while it grows.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 400 {
		l.say(fmt.Sprintf("the wagtail says k%d", i))
	}
	x := newIndex(t, Options{})
	must(t, x.Add(t.Context(), l.events[:10]))
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				r, err := x.Search(t.Context(), Query{Words: "wagtail k5", Limit: 20})
				if err != nil || len(r.Hits) == 0 || r.Hits[0].Event != 6 {
					t.Errorf("got %v %v", r.Hits, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := 10; i < 400; i += 10 {
		must(t, x.Add(t.Context(), l.events[i:i+10]))
	}
	close(done)
	group.Wait()
}

func TestWholeOutputs(t *testing.T) {
	t.Parallel()
	kept := map[string]string{"h1": strings.Repeat("filler\n", 5000) + "the needle is bittern\n", "bin": "\x00\x01binary bittern", "m": "all that was pasted: osprey"}
	x := newIndex(t, Options{Load: func(_ context.Context, h string, offset, limit int64) ([]byte, int64, error) {
		s, ok := kept[h]
		if !ok {
			return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no %s", h)
		}
		return []byte(s[offset:min(int64(len(s)), offset+limit)]), int64(len(s)), nil
	}})
	l := &log{}
	for _, h := range []string{"h1", "gone", "bin"} {
		l.add(glovebox.EventToolFinished, glovebox.ToolFinished{Name: "shell", Blob: h, Content: []glovebox.Block{glovebox.Text("cut " + h)}})
	}
	l.add(glovebox.EventUserMessage, glovebox.UserMessage{Text: "all that", Blob: "m", Size: 27})
	must(t, x.Add(t.Context(), l.events))
	for q, want := range map[string]string{"bittern": "1", "gone": "2", "bin": "3", "osprey": "4"} {
		if got := eventsOf(search(t, x, Query{Words: q})); got != want {
			t.Errorf("%s: got %s, want %s", q, got, want)
		}
	}
}
