package browser

import (
	"fmt"
	"testing"
)

// TestWatchWaitsForWhatWasAskedFor: the empty page by way of which a tab is
// sent elsewhere may tell late that it has loaded.
func TestWatchWaitsForWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWatch(func(string, object) {})
	come := func(loader string) {
		w.event("Page.frameNavigated", fmt.Appendf(nil, `{"frame":{"id":"f","loaderId":%q}}`, loader))
	}
	come("empty")
	w.event("Page.loadEventFired", nil)
	w.await("asked")
	if loaded, _ := w.settled(); loaded {
		t.Error("the empty page was taken for the one that was asked for")
	}
	come("asked")
	if loaded, _ := w.settled(); loaded {
		t.Error("it was taken for loaded when it had come")
	}
	come("led to")
	w.event("Page.loadEventFired", nil)
	if loaded, _ := w.settled(); !loaded {
		t.Error("what it led to has loaded, and is waited for")
	}
}

// TestClosingTabs: a tab that was told to close is not used while the browser
// still lists it.
func TestClosingTabs(t *testing.T) {
	b, err := liar{answer: func(method string) string {
		if method == "Target.getTargets" {
			return `{"targetInfos":[{"targetId":"a","type":"page","url":"http://x/"},{"targetId":"b","type":"page","url":"http://x/"}]}`
		}
		return "{}"
	}}.connect(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	used := func(want string) {
		t.Helper()
		if id, _, err := b.tab(t.Context(), "http://x/"); err != nil || id != want {
			t.Errorf("tab %q, %v; want %q", id, err, want)
		}
	}
	used("a")
	gone := b.leave("a")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		b.closeTab(t.Context(), "a")
	}()
	used("b")
	b.event("Target.targetDestroyed", []byte(`{"targetId":"a"}`))
	<-gone
	<-closed
}
