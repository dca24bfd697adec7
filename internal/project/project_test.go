package project

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/blob/disk"
)

var day = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func newStore(t *testing.T) (*Store, *disk.Store) {
	t.Helper()
	b, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return NewStore(b, func() time.Time { return day }), b
}

func wantCode(t *testing.T, err error, code glovebox.Code) {
	t.Helper()
	if glovebox.CodeOf(err) != code {
		t.Errorf("error %v has the code %q, want %q", err, glovebox.CodeOf(err), code)
	}
}

func set(name, text string) func(*Memory) error {
	return func(m *Memory) error { return m.Set(glovebox.ProjectFile{Name: name, Text: text}, day) }
}

func TestStore(t *testing.T) {
	t.Parallel()
	s, blobs := newStore(t)
	ctx := t.Context()
	_, err := s.Get(ctx, "a", "web")
	wantCode(t, err, glovebox.CodeNotFound)
	wantCode(t, s.Delete(ctx, "a", "web"), glovebox.CodeNotFound)
	if l, err := s.List(ctx, "a"); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
	if _, err := s.Change(ctx, "a", "web", set("notes.md", "hello\n")); err != nil {
		t.Fatal(err)
	}
	m, err := s.Get(ctx, "a", "web")
	if err != nil || m.File("notes.md").Text != "hello\n" || !m.UpdatedAt.Equal(day) || m.Off {
		t.Errorf("%+v, %v", m, err)
	}
	// Another tenant's is not there.
	_, err = s.Get(ctx, "b", "web")
	wantCode(t, err, glovebox.CodeNotFound)
	if l, err := s.List(ctx, "b"); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
	// What fails changes nothing.
	_, err = s.Change(ctx, "a", "web", func(m *Memory) error {
		m.Off = true
		return m.Set(glovebox.ProjectFile{Name: "../x"}, day)
	})
	wantCode(t, err, glovebox.CodeInvalid)
	if m, err := s.Get(ctx, "a", "web"); err != nil || m.Off {
		t.Error(m, err)
	}
	for i := range glovebox.MaxProjectFiles {
		_, err = s.Change(ctx, "a", "web", set(fmt.Sprintf("f%d", i), "x"))
	}
	wantCode(t, err, glovebox.CodeConflict)
	for _, name := range []string{"", ".", "..", "../b", ".x", "a/b", strings.Repeat("x", 65), "ä", "a b"} {
		_, err := s.Change(ctx, "a", name, func(*Memory) error { return nil })
		wantCode(t, err, glovebox.CodeInvalid)
		_, err = s.Get(ctx, "a", name)
		wantCode(t, err, glovebox.CodeInvalid)
	}
	_, err = s.Get(ctx, "../a", "web")
	wantCode(t, err, glovebox.CodeInvalid)
	if l, err := s.List(ctx, "a"); err != nil || len(l) != 1 || l[0].Project != "web" {
		t.Error(l, err)
	}
	if _, err := blobs.Put(ctx, key("a", "bad"), strings.NewReader("{"), 10); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, "a", "bad")
	wantCode(t, err, glovebox.CodeInternal)
	for _, p := range []string{"bad", "web"} {
		if err := s.Delete(ctx, "a", p); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Get(ctx, "a", "web")
	wantCode(t, err, glovebox.CodeNotFound)
}

// TestNothingIsLost: many jobs of a project that end at once, in several
// processes.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stores []*Store
	for range 4 {
		b, err := disk.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		stores = append(stores, NewStore(b, func() time.Time { return day }))
	}
	s := stores[0]
	var wg sync.WaitGroup
	const jobs = 40
	for i := range jobs {
		wg.Go(func() {
			l := Lessons{conventions: []string{fmt.Sprintf("rule %d", i)}}
			if _, err := stores[i%len(stores)].Change(context.Background(), "t", "p", func(m *Memory) error { l.AddTo(m, day); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	m, err := s.Get(t.Context(), "t", "p")
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if !strings.Contains(m.File(glovebox.ProjectConventions).Text, fmt.Sprintf("- rule %d <!--", i)) {
			t.Errorf("rule %d is lost", i)
		}
	}
}

// TestAnotherProcess: where nobody can be kept out, a writer that another
// process overtakes begins anew.
func TestAnotherProcess(t *testing.T) {
	t.Parallel()
	_, blobs := newStore(t)
	lockless := struct{ blob.Store }{blobs}
	s, other := NewStore(lockless, func() time.Time { return day }), NewStore(lockless, nil)
	n := 0
	m, err := s.Change(t.Context(), "t", "p", func(m *Memory) error {
		if n++; n <= 2 {
			if _, err := other.Change(context.Background(), "t", "p", set(fmt.Sprintf("other%d", n), "x")); err != nil {
				return err
			}
		}
		return m.Set(glovebox.ProjectFile{Name: "mine", Text: "y"}, day)
	})
	if err != nil || n != 3 || m.File("mine") == nil || m.File("other1") == nil || m.File("other2") == nil {
		t.Errorf("after %d tries: %+v, %v", n, m, err)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	const head = "# Conventions\n"
	text := merge("", head, []string{"Use tabs.", "Use tabs", "", "multi\nline <!-- x --> \u202e# y"}, false, day)
	want := "# Conventions\n- Use tabs <!-- glovebox 2026-11-20 " + digest("- Use tabs") + " -->\n- multi line <! -- x -- > # y <!-- glovebox 2026-11-20 "
	if !strings.HasPrefix(text, want) || strings.Count(text, "\n") != 3 {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if again := merge(text, head, []string{"use TABS."}, false, day); strings.Count(strings.ToLower(again), "use tabs") != 1 || !strings.HasSuffix(strings.Split(again, " <!--")[1], "use TABS.") {
		t.Errorf("it is not moved:\n%s", again)
	}
	// A person edits one line, writes another, and removes a third.
	text = merge("", head, []string{"one", "two", "three"}, false, day)
	text = strings.Replace(text, "- one <", "- one, but only here <", 1)
	lines := strings.Split(text, "\n")
	text = lines[0] + "\n\nMy own line\n" + lines[1] + "\n* Two\n" + lines[3] + "\n"
	for i := range 3 * maxEntries {
		text = merge(text, head, []string{fmt.Sprintf("%s %d", strings.Repeat("long ", 60), i), "two", "TWO"}, false, day.AddDate(0, 0, i))
	}
	for _, kept := range []string{"\nMy own line\n", "\n- one, but only here <", "\n* Two\n", fmt.Sprintf(" %d <!--", 3*maxEntries-1)} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is gone", kept)
		}
	}
	if strings.Contains(text, "- three") || strings.Contains(text, "- two") || len(text) > glovebox.MaxProjectFile {
		t.Errorf("%d bytes", len(text))
	}
	// A person's file that is full stays as it is.
	full := strings.Repeat("mine, all mine\n", glovebox.MaxProjectFile/15)
	if got := merge(full, head, []string{"one more that has no place in here at all"}, false, day); got != full {
		t.Errorf("%d bytes became %d", len(full), len(got))
	}
	text = merge("", "# Commands\n", []string{"To run it: npm start", "`a` passes"}, true, day)
	if text = merge(text, "", []string{"To run it: npm run dev"}, true, day); strings.Contains(text, "npm start") || !strings.Contains(text, "run dev") || !strings.Contains(text, "`a`") {
		t.Errorf("got %s", text)
	}
	if got := Plain(text); strings.Contains(got, "<!--") || !strings.Contains(got, "- To run it: npm run dev\n") {
		t.Errorf("plain is %q", got)
	}
}

// FuzzMerge: what a person wrote is there afterwards, in order, and the
// bounds hold if they held before.
func FuzzMerge(f *testing.F) {
	f.Add("mine\n- x <!-- glovebox 2026-11-20 00000000 -->\n", "entry\n<!-- glovebox 2026-11-20 00000000 -->")
	f.Fuzz(func(t *testing.T, text, e string) {
		if len(text) > glovebox.MaxProjectFile-1 || !utf8.ValidString(text) {
			return
		}
		got := merge(text, "# h\n", []string{e, "second"}, len(e)%2 == 0, day)
		at := 0
		for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			if _, of := ours(l); of || strings.TrimSpace(text) == "" {
				continue
			}
			i := strings.Index(got[at:], l)
			if i < 0 {
				t.Fatalf("%q is gone from %q", l, got)
			}
			at += i + len(l)
		}
		if len(got) > glovebox.MaxProjectFile || !utf8.ValidString(got) {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

func started(id string, input any) glovebox.Event {
	b, _ := json.Marshal(input)
	return glovebox.NewEvent(day, glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: "note", Input: b})
}

func finished(id string, failed bool) glovebox.Event {
	return glovebox.NewEvent(day, glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "note", IsError: failed})
}

func TestLessons(t *testing.T) {
	t.Parallel()
	var l Lessons
	type in map[string]any
	for _, e := range []glovebox.Event{
		started("1", in{"scope": "project", "name": "style", "text": "# Style\n\n- Use tabs\n- Name files\n  in kebab-case\n\nNo default exports."}), finished("1", false),
		started("2", in{"scope": "job", "name": "style", "text": "only for this job"}), finished("2", false),
		started("3", in{"scope": "project", "name": "mistakes", "text": "Port 3000 is taken."}), finished("3", false),
		started("4", in{"scope": "project", "text": "it failed"}), finished("4", true),
		started("5", in{"scope": "project", "text": "no result"}),
		glovebox.NewEvent(day, glovebox.EventVerified, glovebox.Verified{Passed: false, HowToRun: "no", Proofs: []glovebox.Proof{{Command: "no"}}}),
		glovebox.NewEvent(day, glovebox.EventVerified, glovebox.Verified{Passed: true, HowToRun: "npm ci\nnpm start", Proofs: []glovebox.Proof{
			{Command: "npm test", DurationMS: 900}, {Command: "make slow", DurationMS: 100_000}, {Command: "false", ExitCode: 1}, {Page: "http://localhost"}}}),
		{Type: glovebox.EventToolStarted, Data: json.RawMessage(`{`)}, {Type: glovebox.EventToolFinished, Data: json.RawMessage(`7`)},
	} {
		l.Apply(e)
	}
	m := &Memory{Project: "p"}
	l.AddTo(m, day)
	l.AddTo(m, day) // a worker that died in between does it twice
	files := m.Recall()
	got := map[string]string{}
	for _, f := range files {
		_, body, _ := strings.Cut(f.Text, "stay as they are.\n")
		got[f.Name] = body
	}
	for name, want := range map[string]string{
		"conventions.md": "- Use tabs\n- Name files in kebab-case\n- No default exports.\n",
		"mistakes.md":    "- Port 3000 is taken.\n",
		"commands.md":    "- `npm test` passes, in seconds\n- `make slow` passes, in about 2 minutes\n- To run it: npm ci; npm start\n",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(files) != 3 || files[0].Name != "conventions.md" {
		t.Errorf("files are %v", files)
	}
	if (&Lessons{}).Empty() != true || l.Empty() {
		t.Error("empty")
	}
}

var _ blob.Lister = (*disk.Store)(nil)
