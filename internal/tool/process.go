package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	keepOutput   = 4 << 20                 // bytes of a process's output that the guest keeps for late readers
	captureBound = 8 << 20                 // bytes of output that one call keeps; the middle goes beyond it
	catchUp      = 15 * time.Second        // for output that is under way when a wait ends
	briefly      = 30 * time.Second        // for a question to the guest after the call's context ended
	lookForInput = 1500 * time.Millisecond // for a background command to fail at once
)

// names is for ids that are easy to read: no characters that look alike.
var names = base32.NewEncoding("abcdefghjkmnpqrstuvwxyz023456789").WithPadding(base32.NoPadding)

// processID derives the id of the process that a call starts, so that the
// same call means the same process whichever worker asks. Calls with the same
// id (some models repeat them) get different processes by try.
func processID(prefix, callID string, try int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", callID, try))
	return prefix + "-" + names.EncodeToString(sum[:])[:5]
}

// start starts cmd under an id derived from the call.
func start(ctx context.Context, env *Env, prefix string, cmd guest.Command) (*guest.Process, error) {
	cmd.OutputLimit = keepOutput
	for try := 0; ; try++ {
		cmd.ID = processID(prefix, env.CallID, try)
		p, err := env.Guest.Start(ctx, cmd)
		if glovebox.CodeOf(err) == glovebox.CodeConflict && try < 16 {
			continue
		}
		return p, err
	}
}

// processEnv is added to the environment of what tools start: no colours, no
// pagers, no questions, no advertisements.
func processEnv(extra ...string) map[string]string {
	env := map[string]string{
		"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0",
		"DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
		"npm_config_fund": "false", "npm_config_audit": "false", "npm_config_update_notifier": "false",
	}
	for i := 0; i+1 < len(extra); i += 2 {
		env[extra[i]] = extra[i+1]
	}
	return env
}

// Why a wait for a process ended.
type reason int

const (
	ended   reason = iota // the process did
	waiting               // it waits for input
	timeout               // the time was up
	yielded               // the call has to come back: ErrYield
	matched               // the output has what was waited for
)

// outcome is what follow saw.
type outcome struct {
	why    reason
	state  guest.ProcessState
	output []byte // what was written since the offset; the middle replaced by a line beyond captureBound
	lost   int64  // bytes since the offset that nobody has kept
	took   time.Duration
}

// watch says how to follow a process.
type watch struct {
	offset     int64          // where in its output to begin
	timeout    time.Duration  // more than zero
	untilInput bool           // come back when it waits for input
	until      *regexp.Regexp // come back when the output since offset matches; nil for never
	silent     bool           // nothing is shown live
	line       lineFilter     // what is kept and shown of each line; nil for all
}

// lineFilter returns what stands for a line, which has its newline.
type lineFilter func(line string) string

// Causes with which follow ends its own wait.
var (
	errMatched = errors.New("matched")
	errTimeUp  = errors.New("time is up")
)

// follow reads what p writes until it ends or w says to come back. An error
// means that nobody knows how p is: the guest does not answer, or ctx ended
// for another cause than ErrYield.
func follow(ctx context.Context, env *Env, p *guest.Process, w watch) (outcome, error) {
	begun := time.Now()
	waitCtx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	// Not a deadline: the guest would be told it, and could answer first.
	up := time.AfterFunc(w.timeout, func() { enough(errTimeUp) })
	defer up.Stop()

	// Reading goes on for a moment when waiting ends.
	readCtx, stopReading := context.WithTimeout(context.WithoutCancel(ctx), w.timeout+time.Minute)
	defer stopReading()
	out := newCapture(w.offset, w.until, func() { enough(errMatched) })
	emit := env.Output
	if w.silent {
		emit = nil
	}
	show := newLive(emit)
	defer show.close()
	read := make(chan error, 1)
	go func() {
		read <- p.Output(readCtx, w.offset, func(o guest.Output) error {
			data := out.write(o.Data, w.line)
			out.reach(o)
			show.write(data)
			return nil
		})
	}()
	defer func() {
		stopReading()
		<-read //nolint:errcheck // only its end is waited for
	}()

	state, err := p.Wait(waitCtx, w.untilInput)
	why := ended
	if err != nil {
		if waitCtx.Err() == nil { // not we ended the wait
			return outcome{}, err
		}
		switch cause := context.Cause(waitCtx); {
		case errors.Is(cause, errMatched):
			why = matched
		case errors.Is(cause, errTimeUp):
			why = timeout
		case errors.Is(context.Cause(ctx), ErrYield):
			why = yielded
		default:
			return outcome{}, context.Cause(ctx)
		}
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
		defer cancel()
		if state, err = p.State(brief); err != nil {
			return outcome{}, err
		}
		if !state.Running {
			why = ended
		}
	} else if state.Running {
		why = waiting
	}
	if err := settle(out, read, state); err != nil {
		return outcome{}, err
	}
	return outcome{why: why, state: state, output: out.bytes(), lost: out.lost(), took: time.Since(begun)}, nil
}

// settle waits for output that the guest has but that has not arrived yet. That
// of a process that has ended ends soon, also if something that it started holds
// it open.
func settle(out *capture, read chan error, state guest.ProcessState) error {
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for state.Running && out.received() < state.OutputSize {
		select {
		case <-out.more:
		case err := <-read:
			read <- err
			return err
		case <-late.C:
			return nil
		}
	}
	if state.Running {
		return nil
	}
	select {
	case err := <-read:
		read <- err
		return err
	case <-late.C:
		return nil
	}
}

// capture gathers output, its middle left out beyond captureBound.
type capture struct {
	more  chan struct{} // receives after something has arrived
	until *regexp.Regexp
	found func()

	mu      sync.Mutex
	head    []byte
	tail    []byte
	end     int64     // the offset up to which all was received
	dropped int64     // here
	gaps    int64     // bytes that the guest has dropped, for which a line of its own came
	notes   []gapNote // those lines
	window  []byte    // the end of the output, to look for until in
	line    []byte    // the beginning of a line that is to be filtered
}

// gapNote is a line that the process did not write, by where it is in what was
// kept or dropped here.
type gapNote struct{ from, to int64 }

// matchWindow is how far back a match of until may begin.
const matchWindow = 16 << 10

// newCapture gathers output from an offset on.
func newCapture(offset int64, until *regexp.Regexp, found func()) *capture {
	return &capture{end: offset, more: make(chan struct{}, 1), until: until, found: found}
}

// write takes a piece of output and returns what of it is kept.
func (c *capture) write(p []byte, filter lineFilter) []byte {
	c.mu.Lock()
	p = c.filtered(p, filter)
	room := min(len(p), captureBound/2-len(c.head))
	c.head = append(c.head, p[:room]...)
	c.tail = append(c.tail, p[room:]...)
	if over := len(c.tail) - captureBound/2; over > captureBound/4 {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	hit := false
	if c.until != nil {
		c.window = append(c.window, p...)
		hit = c.until.MatchString(cleanText(c.window))
		if over := len(c.window) - matchWindow; over > 0 {
			c.window = append(c.window[:0], c.window[over:]...)
		}
	}
	c.mu.Unlock()
	if hit {
		c.found()
	}
	return p
}

// reach notes up to where the output was received.
func (c *capture) reach(o guest.Output) {
	c.mu.Lock()
	c.end = o.Offset + int64(len(o.Data))
	if o.Dropped > 0 {
		c.end = o.Offset + o.Dropped
		c.gaps += o.Dropped
		taken := int64(len(c.head)+len(c.tail)) + c.dropped
		c.notes = append(c.notes, gapNote{taken - int64(len(o.Data)), taken})
	}
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// filtered returns what the filter makes of the lines that p completes.
func (c *capture) filtered(p []byte, filter lineFilter) []byte {
	if filter == nil {
		return p
	}
	c.line = append(c.line, p...)
	end := bytes.LastIndexByte(c.line, '\n') + 1
	if end == 0 && len(c.line) > maxLine {
		end = len(c.line)
	}
	var out []byte
	for l := range strings.Lines(string(c.line[:end])) {
		out = append(out, filter(l)...)
	}
	c.line = append(c.line[:0], c.line[end:]...)
	return out
}

func (c *capture) received() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

func (c *capture) lost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := c.dropped + c.gaps
	from := int64(len(c.head)) // what was dropped here begins
	for _, n := range c.notes {
		lost -= max(0, min(n.to, from+c.dropped)-max(n.from, from))
	}
	return lost
}

func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := append([]byte(nil), c.head...)
	if c.dropped > 0 {
		b = fmt.Appendf(b, "\n[... %d bytes were not kept ...]\n", c.dropped)
	}
	b = append(b, c.tail...)
	return append(b, c.line...)
}

// outputText is the text that the model sees of an output, within bound, and
// the handle of the whole, if there is more.
func outputText(ctx context.Context, env *Env, output []byte, bound int) (text, handle string) {
	if len(output) == 0 {
		return "", ""
	}
	if isBinary(output) {
		handle, problem := save(ctx, env, output)
		text := "(binary output, not shown: " + describe(output, int64(len(output)))
		if handle != "" {
			text += fmt.Sprintf("; kept under handle %q", clip.Short(handle, 128))
		}
		return text + ")" + problem, handle
	}
	return bounded(ctx, env, strings.TrimRight(cleanText(output), " \t\n"), bound)
}

// lostText is what to add to the status of an output that is not whole, also
// where the result is said to be kept: that is then no whole either.
func lostText(o outcome) string {
	if o.lost == 0 {
		return ""
	}
	return fmt.Sprintf("; %d bytes in the middle of the output were not kept: write so much to a file", o.lost)
}

// exitText says in brackets how a process ended.
func exitText(env *Env, o outcome) string {
	s := o.state
	took := o.took
	if !s.EndedAt.IsZero() && s.EndedAt.After(s.StartedAt) {
		took = s.EndedAt.Sub(s.StartedAt)
	}
	if s.Signal == "" && s.ExitCode != 128+9 {
		return fmt.Sprintf("exit %d after %s", s.ExitCode, seconds(took))
	}
	signal := s.Signal
	if signal == "" {
		signal = "SIGKILL"
	}
	text := fmt.Sprintf("ended by %s after %s", signal, seconds(took))
	if signal == "SIGKILL" {
		text += "; if nobody stopped it, it was out of memory"
		if s.MaxRSS > 0 {
			text += fmt.Sprintf(" (it used %d MiB", s.MaxRSS>>20)
			if env.Job != nil && env.Job.Limits.MemoryBytes > 0 {
				text += fmt.Sprintf(" of the sandbox's %d MiB", env.Job.Limits.MemoryBytes>>20)
			}
			text += ")"
		}
	}
	return text
}

// seconds is a duration for people.
func seconds(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
