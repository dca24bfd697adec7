package membench

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// of returns blocks of a thousand tokens each, one for each letter.
func of(letters string) []block {
	var all []block
	for _, c := range letters {
		all = append(all, block{id: uint64(c), tokens: 1000})
	}
	return all
}

func TestCache(t *testing.T) {
	t.Parallel()
	type call struct {
		blocks                string
		marks                 []int
		side                  bool
		read, write, uncached int64
	}
	long := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"
	for name, tc := range map[string]struct {
		calls  []call
		breaks int64
	}{
		"a conversation that grows is read and written on": {[]call{
			{"abc", []int{0, 2}, false, 0, 3000, 0},
			{"abcde", []int{0, 2, 4}, false, 3000, 2000, 0},
			{"abcdefg", []int{0, 6}, false, 5000, 2000, 0},
		}, 0},
		"what comes after the last mark is not kept": {[]call{
			{"abcd", []int{2}, false, 0, 3000, 1000},
			{"abcde", []int{2}, false, 3000, 0, 2000},
			{"abcdef", []int{5}, false, 3000, 3000, 0},
		}, 0},
		"only what ended at a mark is found": {[]call{
			{"abcdef", []int{5}, false, 0, 6000, 0},
			{"abcxyz", []int{5}, false, 0, 6000, 0}, // abc is common, but nothing was written there
		}, 1},
		"a fold keeps what a mark kept": {[]call{
			{"abcdef", []int{1, 5}, false, 0, 6000, 0},
			{"abxy", []int{1, 3}, false, 2000, 2000, 0},
			{"abxyz", []int{1, 4}, false, 4000, 1000, 0},
		}, 1},
		"twenty positions back are tried, itself included": {[]call{
			{long[:3], []int{2}, false, 0, 3000, 0},
			{long[:22], []int{21}, false, 3000, 19000, 0},
		}, 0},
		"the twenty-first is not": {[]call{
			{long[:3], []int{2}, false, 0, 3000, 0},
			{long[:23], []int{22}, false, 0, 23000, 0},
		}, 1},
		"a second mark bridges it": {[]call{
			{long[:3], []int{2}, false, 0, 3000, 0},
			{long[:33], []int{15, 32}, false, 3000, 30000, 0},
		}, 0},
		"a summary reads the cache and is no break": {[]call{
			{"abcd", []int{0, 3}, false, 0, 4000, 0},
			{"abcdS", []int{0, 3}, true, 4000, 0, 1000},
			{"abcde", []int{0, 4}, false, 4000, 1000, 0},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCache()
			for i, x := range tc.calls {
				u := c.call(of(x.blocks), x.marks, 7, x.side)
				want := glovebox.Usage{Input: x.uncached, CacheRead: x.read, CacheWrite: x.write, Output: 7, Calls: 1}
				if u != want {
					t.Errorf("call %d: got %+v, want %+v", i, u, want)
				}
			}
			if c.total.breaks != tc.breaks {
				t.Errorf("got %d breaks, want %d", c.total.breaks, tc.breaks)
			}
		})
	}
}

func TestCacheMinimum(t *testing.T) {
	t.Parallel()
	c := newCache()
	small := []block{{1, 500}, {2, 523}}
	if u := c.call(small, []int{0, 1}, 0, false); u.CacheWrite != 0 || u.Input != 1023 {
		t.Errorf("a prefix below the minimum was kept: %+v", u)
	}
	if u := c.call(append(small, block{3, 1}), []int{0, 2}, 0, false); u.CacheRead != 0 || u.CacheWrite != 1024 {
		t.Errorf("a prefix of the minimum was not kept: %+v", u)
	}
	if c.total.breaks != 0 {
		t.Errorf("got %d breaks, want none", c.total.breaks)
	}
}

func TestRequestMarks(t *testing.T) {
	t.Parallel()
	s := newSizer()
	r := &llm.Request{System: "rules", CacheMarks: []llm.CacheMark{{}, {Message: 2}}, Messages: []glovebox.Message{
		{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("a"), glovebox.Text("b")}},
		{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text("a")}},
		{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("c"), glovebox.Text("d")}},
	}}
	blocks, marks := s.request(s.head(r.System, nil), r)
	if len(blocks) != 6 || len(marks) != 3 || marks[0] != 0 || marks[1] != 2 || marks[2] != 5 {
		t.Errorf("got %d blocks with marks %v", len(blocks), marks)
	}
	if blocks[1].id == blocks[3].id {
		t.Error("the same text of the user and of the assistant is one block")
	}
}
