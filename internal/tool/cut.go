package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// noteRoom is how many bytes of the bound Cut keeps for its note.
const noteRoom = 300

// Cut returns text if it has at most bound bytes. Else it returns its
// beginning and its end, cut at line borders where there are any, and between
// them a note of how much is left out and how to read it: with read_output,
// if handle is not empty. The result has at most bound bytes, which must be
// 1024 or more.
func Cut(text string, bound int, handle string) string {
	if len(text) <= bound {
		return text
	}
	room := bound - noteRoom
	head := headOf(text, room*3/5)
	tail := tailOf(text[len(head):], room-room*3/5)
	left := text[len(head) : len(text)-len(tail)]
	note := fmt.Sprintf("[... %d bytes in %d lines left out", len(left), strings.Count(left, "\n")+1)
	if handle != "" {
		first := strings.Count(head, "\n") + 1
		note += fmt.Sprintf(", from line %d on; read_output with handle %q has the whole", first, clip.Short(handle, 128))
	}
	return withNewline(head) + note + " ...]\n" + tail
}

// headOf returns at most n bytes of the beginning of s, ending with a whole
// line if a border is near, else with a whole character.
func headOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if i := strings.LastIndexByte(s[:n], '\n'); i >= n*3/4 {
		return s[:i+1]
	}
	return clip.Head(s, n)
}

// tailOf returns at most n bytes of the end of s, beginning with a whole
// line if a border is near, else with a whole character.
func tailOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && i+1 <= n/4 {
		return s[at+i+1:]
	}
	return clip.Tail(s, n)
}

func withNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// Fit returns r with its text cut to OutputBound in all, the whole kept
// through env.Save, if that is needed. The loop uses it for tools that do not
// bound their text themselves.
func Fit(ctx context.Context, env *Env, r Result) Result {
	total := 0
	for _, b := range r.Content {
		total += len(b.Text)
	}
	if total <= OutputBound {
		return r
	}
	var all strings.Builder
	var rest []glovebox.Block
	for _, b := range r.Content {
		if b.Type == glovebox.BlockText {
			all.WriteString(withNewline(b.Text))
			continue
		}
		rest = append(rest, b)
	}
	text, handle := bounded(ctx, env, all.String(), OutputBound)
	r.Content = append([]glovebox.Block{glovebox.Text(text)}, rest...)
	if handle != "" {
		r.Blob = handle
	}
	return r
}

// bounded returns text cut to bound and the handle of the whole, if it had to
// be cut. That it can't be kept does not undo what the tool did, so the model
// is told rather than the call failed.
func bounded(ctx context.Context, env *Env, text string, bound int) (string, string) {
	if len(text) <= bound {
		return text, ""
	}
	handle, problem := save(ctx, env, []byte(text))
	if problem == "" {
		return Cut(text, bound, handle), handle
	}
	return Cut(text, bound-len(problem), "") + problem, ""
}

// save keeps data and returns its handle, or a line that says why it is not kept.
func save(ctx context.Context, env *Env, data []byte) (handle, problem string) {
	if env.Save == nil {
		return "", "\n[the whole output was not kept]"
	}
	handle, err := env.Save(context.WithoutCancel(ctx), data)
	if err != nil {
		return "", "\n[the whole output could not be kept: " + clip.Short(err.Error(), 200) + "]"
	}
	return handle, ""
}
