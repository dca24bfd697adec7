package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed gui.md
var guiPrompt string

// The bound of the screenshots that models are shown, in pixels. Larger ones
// are scaled down by providers, after which no coordinate fits any more.
const (
	guiMaxW = 1280
	guiMaxH = 800
)

// GUIInput is the input of the tool gui. Its names are those of Anthropic's
// computer tool, so that calls of that are calls of this; package
// internal/llm/computer translates them, and OpenAI's.
type GUIInput struct {
	Action string `json:"action" jsonschema:"enum=screenshot,enum=left_click,enum=right_click,enum=middle_click,enum=double_click,enum=triple_click,enum=left_click_drag,enum=left_mouse_down,enum=left_mouse_up,enum=mouse_move,enum=cursor_position,enum=type,enum=key,enum=hold_key,enum=scroll,enum=wait,enum=wait_for_change,enum=zoom,enum=read,enum=windows,enum=focus,enum=open" jsonschema_description:"What to do."`

	Coordinate      []int  `json:"coordinate,omitempty" jsonschema:"minItems=2,maxItems=2" jsonschema_description:"[x, y] of a click, move or scroll, or the end of a drag; where the pointer is if left out."`
	Target          string `json:"target,omitempty" jsonschema:"maxLength=300" jsonschema_description:"Instead of coordinate, on a page in the browser: what to click, move to or scroll at, by its name as read and preview list it, e.g. [button] Add."`
	StartCoordinate []int  `json:"start_coordinate,omitempty" jsonschema:"minItems=2,maxItems=2" jsonschema_description:"[x, y] where a drag starts."`
	Text            string `json:"text,omitempty" jsonschema:"maxLength=16000" jsonschema_description:"The text of type; the keys of key and hold_key; keys to hold during a click or scroll, e.g. shift; the program or URL of open."`
	ScrollDirection string `json:"scroll_direction,omitempty" jsonschema:"enum=up,enum=down,enum=left,enum=right" jsonschema_description:"Where to scroll."`
	ScrollAmount    int    `json:"scroll_amount,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"Notches of the wheel; 3 if left out."`
	Duration        int    `json:"duration,omitempty" jsonschema:"minimum=1,maximum=120" jsonschema_description:"Seconds of wait, wait_for_change and hold_key (at most 10)."`
	Region          []int  `json:"region,omitempty" jsonschema:"minItems=4,maxItems=4" jsonschema_description:"[x0, y0, x1, y1] of zoom and wait_for_change."`
	Window          string `json:"window,omitempty" jsonschema:"maxLength=200" jsonschema_description:"Number, or part of the title, of the window of focus, screenshot or zoom."`
}

// GUI returns the tool that sees and works the screen.
func GUI() Tool {
	t := yields(New("gui", guiPrompt, gui))
	t.Computer = besideComputer()
	return t
}

// desk is one call of the tool at work.
type desk struct {
	env    *Env
	in     GUIInput
	before guest.Shot
	scale  scaling
	notes  []string // said before anything else

	started bool // the display was started for this call
}

// errGUI is what the model did wrong.
type errGUI string

func (e errGUI) Error() string { return string(e) }

func gui(ctx context.Context, env *Env, in GUIInput) (Result, error) {
	d := &desk{env: env, in: in}
	return d.finish(ctx)
}

// finish runs a call and says what became of it.
func (d *desk) finish(ctx context.Context) (Result, error) {
	r, err := d.run(ctx)
	if err == nil {
		return r, nil
	}
	if e, ok := errors.AsType[errGUI](err); ok {
		return ErrorResult(string(e)), nil
	}
	if errors.Is(context.Cause(ctx), ErrYield) {
		return TextResult("[interrupted by a message of the user; take a screenshot to see how far it got]"), nil
	}
	if ctx.Err() == nil && glovebox.CodeOf(err) == glovebox.CodeUnavailable {
		return d.recover(ctx, err)
	}
	return failed(ctx, err)
}

// passive are the actions that change nothing: a person who works the machine
// is not disturbed by them.
var passive = []string{"screenshot", "zoom", "cursor_position", "wait", "wait_for_change", "windows", "read"}

// run does what was asked.
func (d *desk) run(ctx context.Context) (Result, error) {
	if !slices.Contains(passive, d.in.Action) {
		waited, err := d.awaitControl(ctx)
		if err != nil {
			return Result{}, err
		}
		if waited > 0 {
			d.notes = append(d.notes, fmt.Sprintf("A person had mouse and keyboard for %s. Your action was not done: the screen may be another now. Look at it and decide anew.", seconds(waited)))
			return d.screenshot(ctx)
		}
	}
	switch d.in.Action {
	case "screenshot", "zoom":
		return d.screenshot(ctx)
	case "cursor_position":
		return d.cursorPosition(ctx)
	case "wait":
		return d.wait(ctx)
	case "wait_for_change":
		return d.waitForChange(ctx)
	case "windows":
		return d.listWindows(ctx)
	case "read":
		return d.read(ctx)
	}
	return d.act(ctx)
}

// awaitControl waits while a person holds mouse and keyboard.
func (d *desk) awaitControl(ctx context.Context) (time.Duration, error) {
	if d.env.Control == nil {
		return 0, nil
	}
	var begin time.Time
	for {
		holder, changed := d.env.Control()
		if holder == glovebox.ControlAgent {
			if begin.IsZero() {
				return 0, nil
			}
			return max(time.Since(begin), 1), nil
		}
		if begin.IsZero() {
			begin = time.Now()
			if d.env.Output != nil {
				d.env.Output("waiting: a person has mouse and keyboard\n")
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// recover brings a display back that is dead or locked up, and says so.
func (d *desk) recover(ctx context.Context, cause error) (Result, error) {
	select {
	case <-d.env.Guest.Done():
		return Result{}, cause
	default:
	}
	services, err := d.env.Guest.Services(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	i := slices.IndexFunc(services, func(s guest.ServiceState) bool { return s.Name == guest.ServiceDisplay })
	if i < 0 {
		return ErrorResult("This machine has no screen: " + plain(cause)), nil
	}
	if first := services[i]; first.LastExit == "" && first.Restarts == 0 && !d.started && (!first.Running || strings.Contains(cause.Error(), notThere)) {
		return d.start(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, displayWait)
	defer cancel()
	what := "The display was not running"
	_, dead := d.env.Guest.Screenshot(ctx, guest.ShotRequest{Area: guest.Rect{W: 1, H: 1}})
	if dead == nil {
		if services[i].Restarts == 0 {
			return ErrorResult("The screen did not answer, and does again: " + plain(cause) + ". Take a screenshot."), nil
		}
		what = "The display had died"
	} else if services[i].Running {
		what = "The display was locked up: " + plain(cause)
		err = d.env.Guest.RestartService(ctx, guest.ServiceDisplay)
	}
	if err == nil {
		err = d.env.Guest.StartServices(ctx)
	}
	if err != nil {
		return ErrorResult(what + ", and can't be started again: " + plain(err) + ". Work without it, or try again later."), nil
	}
	return ErrorResult(what + ". It was started again; the windows that were open are gone, files are not. Your action was not done, or only in part."), nil
}

// notThere is what the guest says of a display that nobody could connect to:
// of one that never ended, that it has not begun, and nothing was done.
const notThere = "the display is not there"

// displayWait is how long a display may take to start.
const displayWait = time.Minute

// start starts a display that has never run, as on a machine that was not made
// from a template, and does the action then.
func (d *desk) start(ctx context.Context) (Result, error) {
	soon, cancel := context.WithTimeout(ctx, displayWait)
	defer cancel()
	if err := d.env.Guest.StartServices(soon); err != nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		return failed(ctx, err)
	}
	d.started = true
	return d.finish(ctx)
}

// said joins the notes and a text.
func (d *desk) said(text string) string {
	return strings.Join(append(slices.Clone(d.notes), text), "\n")
}
