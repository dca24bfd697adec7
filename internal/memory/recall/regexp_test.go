package recall_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// TestRegexpOfManySteps: an expression of a kilobyte may be a program that
// takes seconds for half a kilobyte of text. It is refused; what is only slow
// stops when its time is up.
func TestRegexpOfManySteps(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	x, err := recall.Open(path, "j", recall.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { x.Close() }()
	var events []glovebox.Event
	for i := range 400 {
		e := glovebox.NewEvent(time.Unix(1_700_000_000, 0), glovebox.EventNotice, glovebox.Notice{Text: fmt.Sprint(i, " needle ", strings.Repeat("lorem ipsum dolor ", 500))})
		e.Seq = int64(i + 1)
		events = append(events, e)
	}
	if err := x.Add(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	for _, re := range []string{strings.Repeat(`(?:\pL?){1000}`, 66) + "QQ", strings.Repeat(`[^q]{0,1000}`, 80) + "QQ", strings.Repeat(`\pL{1000}`, 100)} {
		_, err := x.Search(t.Context(), recall.Query{Regexp: re})
		if glovebox.CodeOf(err) != glovebox.CodeTooLarge {
			t.Errorf("%.40s: %v", re, err)
		}
	}
	for _, re := range []string{`(?:\pL?){990}[Q][QZ]`, `needle(?:.?){990}[Q][QZ]`} {
		begun := time.Now()
		r, err := x.Search(t.Context(), recall.Query{Regexp: re})
		if err != nil || len(r.Hits) != 0 {
			t.Errorf("%.40s: %v, %v", re, r.Hits, err)
		}
		if d := time.Since(begun); d > 5*time.Minute || r.Note == "" {
			t.Errorf("%.40s took %v: %q", re, d, r.Note)
		}
	}
	x.Close()
	if x, err = recall.Open(path, "j", recall.Options{ScanTime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	r, err := x.Search(t.Context(), recall.Query{Regexp: `\b39[0-9] needle\b`})
	if err != nil || len(r.Hits) != 10 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestRangesBeyondAll: a range may end, or begin, beyond all that there is.
func TestRangesBeyondAll(t *testing.T) {
	t.Parallel()
	x, err := recall.Open(t.TempDir()+"/x.db", "j", recall.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	e := glovebox.NewEvent(time.Unix(1_700_000_000, 0), glovebox.EventNotice, glovebox.Notice{Text: "a needle"})
	e.Seq = 1
	if err := x.Add(t.Context(), []glovebox.Event{e}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    recall.Query
		hits int
	}{
		{recall.Query{From: 1 << 62}, 0}, {recall.Query{From: 1 << 52}, 0}, {recall.Query{FromStep: math.MaxInt64}, 0},
		{recall.Query{Through: math.MaxInt64}, 1}, {recall.Query{ThroughStep: math.MaxInt64}, 1},
	} {
		c.q.Words = "needle"
		r, err := x.Search(t.Context(), c.q)
		if err != nil || len(r.Hits) != c.hits {
			t.Errorf("%+v: %v, %v", c.q, r.Hits, err)
		}
	}
}
