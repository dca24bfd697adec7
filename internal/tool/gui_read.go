package tool

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// readBound is how much text of a page is returned, in bytes.
const readBound = 12 << 10

func (d *desk) cursorPosition(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	x, y := d.scale.down(d.before.Cursor[0], d.before.Cursor[1])
	return TextResult(d.said(fmt.Sprintf("X=%d,Y=%d", x, y))), nil
}

// wait waits and shows the screen.
func (d *desk) wait(ctx context.Context) (Result, error) {
	t := time.NewTimer(time.Duration(max(d.in.Duration, 1)) * time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	return d.screenshot(ctx)
}

// waitForChange waits until the screen or a region of it changes.
func (d *desk) waitForChange(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	area, err := d.area()
	if err != nil {
		return Result{}, err
	}
	limit := 10 * time.Second
	if d.in.Duration > 0 {
		limit = time.Duration(d.in.Duration) * time.Second
	}
	windows, err := d.env.Guest.Windows(ctx)
	if err != nil {
		return Result{}, err
	}
	changed, err := d.env.Guest.WaitChange(ctx, area, "", limit)
	if err != nil {
		return Result{}, err
	}
	if !changed {
		return TextResult(d.said(fmt.Sprintf("Nothing changed within %v.", limit))), nil
	}
	return d.effect(ctx, windows, settleFirst)
}

// listWindows lists the windows, the topmost first.
func (d *desk) listWindows(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	windows, err := d.env.Guest.Windows(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(windows) == 0 {
		return TextResult(d.said("No window is open.")), nil
	}
	var b strings.Builder
	for _, w := range windows {
		x, y := d.scale.down(w.Area.X, w.Area.Y)
		x1, y1 := d.scale.down(w.Area.X+w.Area.W, w.Area.Y+w.Area.H)
		fmt.Fprintf(&b, "- %s at [%d, %d, %d, %d]", windowName(w), x, y, x1, y1)
		if w.Active {
			b.WriteString(", has the keyboard")
		}
		b.WriteByte('\n')
	}
	return TextResult(d.said(strings.TrimRight(b.String(), "\n"))), nil
}

// pick finds a window by its number or a part of its title or class.
func pick(windows []guest.Window, name string) (guest.Window, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		for _, w := range windows {
			if w.ID == uint32(n) {
				return w, nil
			}
		}
	}
	var titles []string
	low := strings.ToLower(name)
	for _, w := range windows {
		if strings.Contains(strings.ToLower(w.Title), low) || strings.EqualFold(w.Class, name) {
			return w, nil
		}
		titles = append(titles, windowName(w))
	}
	if len(titles) == 0 {
		return guest.Window{}, errGUI(fmt.Sprintf("There is no window %q: none is open.", clip.Short(name, 100)))
	}
	return guest.Window{}, errGUI(fmt.Sprintf("There is no window %q. There are: %s.", clip.Short(name, 100), strings.Join(titles[:min(len(titles), 10)], "; ")))
}

func (d *desk) focus(ctx context.Context, windows []guest.Window) error {
	name := d.in.Window
	if name == "" {
		name = d.in.Text
	}
	if name == "" {
		return errGUI(`"window": name the window, by its number or a part of its title`)
	}
	w, err := pick(windows, name)
	if err != nil {
		return err
	}
	return d.env.Guest.FocusWindow(ctx, w.ID)
}

// open opens a URL in the browser, or starts a program.
func (d *desk) open(ctx context.Context) error {
	text := strings.TrimSpace(d.in.Text)
	if text == "" {
		return errGUI(`"text": name a program or a URL to open`)
	}
	if strings.ContainsRune(text, 0) {
		return errGUI(`"text": it contains a NUL byte`)
	}
	if u, err := url.Parse(text); err == nil && u.Scheme != "" && (u.Host != "" || u.Scheme == "file" || u.Scheme == "about") {
		return d.openURL(ctx, text)
	}
	cmd := BashCommand("exec "+text, "")
	cmd.ID, cmd.NoStdin = "gui-"+glovebox.NewID(), true
	p, err := d.env.Guest.Start(ctx, cmd)
	if err != nil {
		return err
	}
	// A program that is not there ends at once; what it said is the answer.
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if st, err := p.Wait(soon, false); err == nil && st.ExitCode != 0 {
		return errGUI(fmt.Sprintf("%q ended with %d: %s", clip.Short(text, 200), st.ExitCode, outputEnd(ctx, p, 2<<10)))
	}
	return nil
}

func (d *desk) openURL(ctx context.Context, u string) error {
	u, err := browser.CheckURL("text", u)
	if err != nil {
		return errGUI(plain(err))
	}
	var failure string
	problem, err := withBrowser(ctx, d.env, func(b *browser.Browser) error {
		page, err := b.Open(ctx, u, browser.OpenOptions{Timeout: 30 * time.Second})
		if err != nil {
			return err
		}
		defer page.Close()
		failure = page.Report().Failure
		return nil
	})
	if err != nil {
		return err
	}
	if problem == "" && failure != "" {
		problem = "The page did not load: " + failure
	}
	if problem != "" {
		return errGUI(problem)
	}
	return nil
}

// read returns the text of the front window, where it has one.
func (d *desk) read(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	windows, err := d.env.Guest.Windows(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(windows) == 0 {
		return Result{}, errGUI("No window is open, so there is nothing to read.")
	}
	front := windows[0]
	for _, w := range windows {
		if w.Active {
			front = w
		}
	}
	if !strings.Contains(strings.ToLower(front.Class), "chrom") {
		return Result{}, errGUI(fmt.Sprintf("The window in front, %s, gives no text away: take a screenshot, or zoom.", windowName(front)))
	}
	var text string
	problem, err := withBrowser(ctx, d.env, func(b *browser.Browser) error {
		page, err := b.Front(ctx)
		if err != nil {
			return err
		}
		defer page.Close()
		o, err := page.Outline(ctx)
		if err != nil {
			return err
		}
		for i := range o.Items {
			o.Items[i].X, o.Items[i].Y = d.scale.down(o.Items[i].X, o.Items[i].Y)
		}
		r := page.Report()
		text = fmt.Sprintf("%s\n%q\n\n%s", r.URL, r.Title, o.Text(readBound))
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	if problem != "" {
		return Result{}, errGUI(problem)
	}
	return TextResult(d.said(text)), nil
}
