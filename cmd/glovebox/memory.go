package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// memoryCmd shows what a model has before it.
type memoryCmd struct {
	Show   memoryShowCmd   `cmd:"" help:"Print the exact request to the model of any step of a job."`
	Replay memoryReplayCmd `cmd:"" help:"Run a job's log through the engine, offline, and say what its requests cost."`
}

type memoryShowCmd struct {
	one
	At      *int64 `placeholder:"STEP" help:"Number of the step (default: the newest)."`
	Attempt *int64 `placeholder:"N" help:"Which try of a call that failed and was repeated (default: the newest)."`
	Text    bool   `xor:"form" help:"As text, with its parts (default)."`
	JSON    bool   `name:"json" xor:"form" help:"The request itself, as JSON."`
}

// Run prints a request.
func (c *memoryShowCmd) Run(a *app) error {
	step, err := fromOne("--at", c.At)
	if err != nil {
		return err
	}
	attempt, err := fromOne("--attempt", c.Attempt)
	if err != nil {
		return err
	}
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		v, err := cl.Request(ctx, c.ID, step, attempt)
		if err != nil {
			return err
		}
		if c.JSON {
			_, err := fmt.Fprintf(a.stdout, "%s\n", v.Request)
			return err
		}
		return printRequest(a.stdout, v)
	})
}

// fromOne returns the value of a flag that counts from 1; 0 if it was not given.
func fromOne(flag string, v *int64) (int64, error) {
	if v == nil {
		return 0, nil
	}
	if *v < 1 {
		return 0, glovebox.Invalid(flag, "give a whole number from 1 on, or leave it out for the newest", "%d is less than 1", *v)
	}
	return *v, nil
}

// printRequest writes a request for people. What it says is indented, so that
// nothing in it can look like a heading.
func printRequest(to io.Writer, v *glovebox.RequestView) error {
	var r llm.Request
	if err := json.Unmarshal(v.Request, &r); err != nil {
		return glovebox.Errorf(glovebox.CodeInternal, "read the request: %w", err)
	}
	w := bufio.NewWriter(to)
	requestHeading(w, v)
	heading(w, "head: rules")
	indented(w, r.System)
	heading(w, "head: %s", plural(len(r.Tools), "tool"))
	for _, t := range r.Tools {
		fmt.Fprintf(w, "%s\n", line(t.Name))
		indented(w, t.Description)
		indented(w, compact(t.Schema))
		if t.Computer != nil {
			indented(w, fmt.Sprintf("also the provider's own computer tool, for a screen of %d x %d", t.Computer.Width, t.Computer.Height))
		}
	}
	marked := map[llm.CacheMark]bool{}
	for _, m := range r.CacheMarks {
		marked[m] = true
	}
	part := ""
	for i, m := range r.Messages {
		for n, b := range m.Blocks {
			if p := partOf(v, i, n); p != part {
				part = p
				heading(w, "%s", partTitle(p))
			}
			printBlock(w, m.Role, b)
			if marked[llm.CacheMark{Message: i, Blocks: n + 1}] || n+1 == len(m.Blocks) && marked[llm.CacheMark{Message: i}] {
				fmt.Fprintf(w, "-- cached up to here\n")
			}
		}
	}
	return w.Flush()
}

func requestHeading(w io.Writer, v *glovebox.RequestView) {
	fmt.Fprintf(w, "job      %s, step %d, attempt %d of %d, event %d\n", v.JobID, v.Step, v.Attempt, v.Attempts, v.Event)
	fmt.Fprintf(w, "model    %s\n", line(v.Model))
	fmt.Fprintf(w, "memory   epoch %d; %s\n", v.Epoch, windowText(v.Use))
	fmt.Fprintf(w, "request  %s, sha256 %s\n", size(v.Bytes), v.SHA256)
	if v.Same {
		fmt.Fprintf(w, "         the same as was recorded when it was sent\n")
	} else {
		fmt.Fprintf(w, "         NOT what was sent: that had the sum %s.\n         Another version or other settings of the server made it; this is what it would be now.\n", line(v.Recorded))
	}
}

// windowText says what fills a window.
func windowText(u glovebox.WindowUse) string {
	if u == (glovebox.WindowUse{}) {
		return "what filled the window was not recorded"
	}
	of := "tokens, about"
	if u.Window > 0 {
		of = "of " + grouped(u.Window) + " tokens, about"
	}
	s := fmt.Sprintf("%s %s: head %s, folded %s, tail %s", grouped(u.Tokens()), of, grouped(u.Head), grouped(u.Folded), grouped(u.Tail))
	if u.High > 0 {
		s += fmt.Sprintf("; folds at %s down to %s", grouped(u.High), grouped(u.Low))
	}
	return s
}

// memoryLines says in words how a job's memory stands.
func memoryLines(m *glovebox.MemoryView) []string {
	var lines []string
	if m.Use != (glovebox.WindowUse{}) { // else it was made by an older version
		lines = append(lines, windowText(m.Use))
	}
	s := fmt.Sprintf("%.0f %% of the input was read from the cache", 100*m.CacheShare)
	if m.Folds > 0 {
		s += fmt.Sprintf("; folded %s (the last time: %s), epoch %d", plural(m.Folds, "time"), foldReasons[m.Reason], m.Epoch)
	}
	if m.Summaries > 0 {
		s += fmt.Sprintf("; %s, %d of them without a model, for %s", summaries(m.Summaries), m.Digests, dollars(m.Usage.CostMicros))
	}
	return append(lines, s)
}

func summaries(n int64) string {
	if n == 1 {
		return "1 summary"
	}
	return fmt.Sprintf("%d summaries", n)
}

// foldReasons says why history was folded.
var foldReasons = map[glovebox.FoldReason]string{
	glovebox.FoldFull: "the window was full", glovebox.FoldCold: "the cache had expired", glovebox.FoldRefused: "the provider found the request too long",
	glovebox.FoldBytes: "images and text weighed too much", glovebox.FoldModel: "another model went on",
}

// partOf returns the part of the request that a block of a message is in.
func partOf(v *glovebox.RequestView, message, block int) string {
	if message == 0 && block < len(v.Opening) {
		return v.Opening[block]
	}
	return "tail"
}

func partTitle(part string) string {
	return map[string]string{
		"head":   "head: never folded",
		"folded": "folded: notes that stand for what happened before",
		"tail":   "tail: word for word",
	}[part]
}

func printBlock(w io.Writer, role glovebox.Role, b glovebox.Block) {
	switch b.Type {
	case glovebox.BlockText:
		fmt.Fprintf(w, "%s: text\n", role)
		indented(w, b.Text)
	case glovebox.BlockReasoning:
		fmt.Fprintf(w, "%s: reasoning%s\n", role, opaque(b))
		indented(w, b.Text)
	case glovebox.BlockToolUse:
		fmt.Fprintf(w, "%s: call %s of %s%s\n", role, line(b.CallID), line(b.Name), opaque(b))
		indented(w, compact(b.Input))
	case glovebox.BlockToolResult:
		failed := ""
		if b.IsError {
			failed = ", an error"
		}
		fmt.Fprintf(w, "%s: result of %s%s\n", role, line(b.CallID), failed)
		for _, c := range b.Content {
			if c.Type == glovebox.BlockText {
				indented(w, c.Text)
			} else {
				indented(w, imageText(c))
			}
		}
	case glovebox.BlockImage:
		fmt.Fprintf(w, "%s: image\n", role)
		indented(w, imageText(b))
	}
}

func opaque(b glovebox.Block) string {
	if len(b.Opaque) == 0 {
		return ""
	}
	return fmt.Sprintf(" (with %s that only %s can read)", size(int64(len(b.Opaque))), line(b.Provider))
}

func imageText(b glovebox.Block) string {
	if b.Blob != "" {
		return fmt.Sprintf("[%s, %s]", b.MediaType, b.Blob)
	}
	return fmt.Sprintf("[%s, %s]", b.MediaType, size(int64(len(b.Data))))
}

func heading(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "\n== %s\n\n", fmt.Sprintf(format, args...))
}

// indented writes foreign text, each line behind two spaces.
func indented(w io.Writer, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	for l := range strings.SplitSeq(strings.TrimRight(plain(text), "\n"), "\n") {
		if l == "" {
			fmt.Fprintln(w)
			continue
		}
		fmt.Fprintf(w, "  %s\n", l)
	}
	fmt.Fprintln(w)
}

// compact returns JSON without white space; what is not JSON as it is.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
