package browser

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox"
)

//go:embed outline.js
var outlineScript string

// Bounds of an outline.
const (
	maxItems     = 400
	maxText      = 24 << 10 // characters
	maxShownText = 1 << 20  // characters that are looked through for a text
)

// Outline is what can be read on a page and acted on, in the order of the
// document. Of a very large page it has the beginning.
type Outline struct {
	Items []Item
	More  int  // items that are left out
	Cut   bool // more of the page was not looked at

	Width, Height int // of what is in view, in pixels
	PageHeight    int // of all
	Scrolled      int // pixels from the top
}

// Item is a piece of a page: something to act on, a heading, a text.
type Item struct {
	Role  string // as in ARIA, e.g. "button"; "text" for text, "clickable" for what only has a script
	Name  string // accessible name, at most 120 characters; of a text, all of it
	Value string
	State string // e.g. "checked, focused"
	Href  string // of a link

	// Where it is, if it can be acted on: its middle on the screen, in pixels.
	X, Y    int
	Placed  bool
	Visible bool // in view; otherwise it has to be scrolled to
	Covered bool // something else is in front of it
}

// read is what the script returns.
type read struct {
	Items []struct {
		Role, Name, Value, State, Href string
		X, Y                           *float64
		Seen, Covered                  bool
	}
	Text   []string
	More   int
	Cut    bool
	Screen struct{ X, Y, Scale float64 }
	View   struct{ W, H, Y, Height float64 }
}

// read runs the script. It scrolls to the item of number reveal, unless that is -1.
func (p *Page) read(ctx context.Context, items, text, reveal int) (read, error) {
	var r read
	err := p.eval(ctx, fmt.Sprintf("%s({items: %d, text: %d, reveal: %d})", strings.TrimSpace(outlineScript), items, text, reveal), &r)
	return r, err
}

// Outline reads the page. Unless it was opened with a viewport of its own,
// places are those on the screen.
func (p *Page) Outline(ctx context.Context) (Outline, error) {
	if p.watch.broken() {
		return Outline{}, glovebox.Errorf(glovebox.CodeUnavailable, "it can't be read: %s", p.Report().Failure)
	}
	r, err := p.read(ctx, maxItems, maxText, -1)
	if err != nil {
		return Outline{}, err
	}
	o := Outline{More: max(0, r.More), Cut: r.Cut, Width: pixel(r.View.W), Height: pixel(r.View.H), PageHeight: pixel(r.View.Height), Scrolled: pixel(r.View.Y)}
	if p.view {
		r.Screen.X, r.Screen.Y, r.Screen.Scale = 0, 0, 1
	}
	for _, i := range r.Items[:min(len(r.Items), maxItems)] {
		item := Item{
			Role: clean(i.Role, 20), Name: clean(i.Name, 2000), Value: clean(i.Value, 500), State: clean(i.State, 100), Href: clean(i.Href, 300),
			Visible: i.Seen, Covered: i.Covered,
		}
		if i.X != nil && i.Y != nil {
			item.Placed = true
			item.X, item.Y = pixel(r.Screen.X+*i.X*r.Screen.Scale), pixel(r.Screen.Y+*i.Y*r.Screen.Scale)
		}
		o.Items = append(o.Items, item)
	}
	return o, nil
}

// pixel is a number of a page's as one of pixels.
func pixel(f float64) int {
	if math.IsNaN(f) {
		return 0
	}
	return int(math.Round(math.Max(-1e6, math.Min(1e6, f))))
}

// String writes an item as one line.
func (i Item) String() string {
	if i.Role == "text" {
		return i.Name
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %q", i.Role, i.Name)
	if i.Value != "" {
		fmt.Fprintf(&b, " = %q", i.Value)
	}
	if i.State != "" {
		fmt.Fprintf(&b, " (%s)", i.State)
	}
	switch {
	case !i.Placed:
	case i.Visible && i.Covered:
		fmt.Fprintf(&b, " at %d,%d, behind something", i.X, i.Y)
	case i.Visible:
		fmt.Fprintf(&b, " at %d,%d", i.X, i.Y)
	default:
		b.WriteString(" out of view")
	}
	if i.Href != "" {
		b.WriteString(" -> " + cut(i.Href, 120))
	}
	return b.String()
}

// Text writes the outline, at most limit bytes.
func (o Outline) Text(limit int) string {
	var b strings.Builder
	left := o.More
	for n, i := range o.Items {
		line := i.String() + "\n"
		if b.Len()+len(line) > limit-80 {
			left += len(o.Items) - n
			break
		}
		b.WriteString(line)
	}
	if b.Len() == 0 && left == 0 {
		return "(nothing is on it)\n"
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d more lines]\n", left)
	} else if o.Cut {
		b.WriteString("[the page goes on]\n")
	}
	return b.String()
}

// Shows reports whether a text is on the page, in view or further down, and
// waits for it until ctx ends or limit has passed. White space does not
// count, nor does case where the page's style changes it.
func (p *Page) Shows(ctx context.Context, text string, limit time.Duration) (bool, error) {
	want := solid(text)
	until := time.Now().Add(limit)
	for {
		r, err := p.read(ctx, 0, maxShownText, -1)
		if err != nil {
			return false, err
		}
		if strings.Contains(solid(strings.Join(r.Text, "")), want) {
			return true, nil
		}
		if time.Until(until) < 0 {
			return false, nil
		}
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false, context.Cause(ctx)
		}
	}
}

// solid returns s without white space and in one case.
func solid(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// Find returns the one item to act on that has this name, and this role
// unless it is empty. Names are compared without case; an exact one goes
// before one that only contains it. What is out of view is scrolled to.
// CodeNotFound if there is none, CodeConflict if there are several: the
// message lists what there is.
func (p *Page) Find(ctx context.Context, role, name string) (Item, error) {
	o, err := p.Outline(ctx)
	if err != nil {
		return Item{}, err
	}
	item, index, err := o.find(role, name)
	if err != nil || item.Visible {
		return item, err
	}
	if _, err := p.read(ctx, maxItems, maxText, index); err != nil {
		return Item{}, err
	}
	if o, err = p.Outline(ctx); err != nil {
		return Item{}, err
	}
	if item, _, err = o.find(role, name); err == nil && !item.Visible {
		err = &glovebox.Error{Code: glovebox.CodeConflict, Msg: fmt.Sprintf("[%s] %q is out of view", item.Role, item.Name), Hint: "scroll to it, then look again"}
	}
	return item, err
}

func (o Outline) find(role, name string) (Item, int, error) {
	want := strings.ToLower(clean(name, 200))
	var exact, near []int
	for n, i := range o.Items {
		if !i.Placed || role != "" && !strings.EqualFold(i.Role, role) {
			continue
		}
		switch have := strings.ToLower(i.Name); {
		case have == want:
			exact = append(exact, n)
		case want != "" && strings.Contains(have, want):
			near = append(near, n)
		}
	}
	if len(exact) == 0 {
		exact = near
	}
	if len(exact) == 1 {
		return o.Items[exact[0]], exact[0], nil
	}
	list, code, what := exact, glovebox.CodeConflict, "several things on the page are called"
	if len(exact) == 0 {
		code, what = glovebox.CodeNotFound, "nothing to act on is called"
		for n, i := range o.Items {
			if i.Placed {
				list = append(list, n)
			}
		}
	}
	var lines []string
	for _, n := range list[:min(len(list), 20)] {
		lines = append(lines, o.Items[n].String())
	}
	if len(lines) == 0 {
		lines = []string{"(nothing)"}
	}
	return Item{}, 0, &glovebox.Error{Code: code, Msg: fmt.Sprintf("%s %q; there is: %s", what, clean(name, 100), strings.Join(lines, "; ")),
		Hint: "name it as it is listed, with its role if several have the name"}
}
