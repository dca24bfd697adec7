//go:build linux

package display

import (
	"bufio"
	"bytes"
	"errors"
	"image"
	_ "image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// screen is an X server of a test's own.
type screen struct {
	*Display
	t    testing.TB
	name string // ":N"
	cmd  *exec.Cmd
}

// need skips a test whose programs are missing.
func need(t testing.TB, programs map[string]string) {
	t.Helper()
	for p, pkg := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: apt-get install %s", p, pkg)
		}
	}
}

// screens bounds how many X servers run at once: two screens and what runs on
// them are enough for two processors.
var screens = make(chan struct{}, 3)

func newScreen(t testing.TB, managed bool) *screen {
	t.Helper()
	need(t, map[string]string{"Xvnc": "tigervnc-standalone-server", "openbox": "openbox", "xterm": "xterm", "xev": "x11-utils"})
	screens <- struct{}{}
	t.Cleanup(func() { <-screens })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := &screen{t: t}
	s.cmd = exec.Command("Xvnc", "-displayfd", "3", "-geometry", "1280x800", "-depth", "24", "-SecurityTypes", "None", "-rfbport", "-1",
		"-rfbunixpath", filepath.Join(t.TempDir(), "rfb"), "-nolisten", "tcp", "-noreset")
	s.cmd.ExtraFiles = []*os.File{w}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.name = ":" + strings.TrimSpace(line)
	s.Display = New(func() string { return "/tmp/.X11-unix/X" + s.name[1:] })
	t.Cleanup(func() {
		s.Close()
		// It removes its socket and lock itself: once it is gone, another server
		// may have taken its number, and they would be that one's.
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		_ = s.cmd.Wait()
	})
	if managed {
		up := filepath.Join(t.TempDir(), "up")
		s.start("openbox", "--sm-disable", "--startup", "touch "+up)
		s.until("the window manager", func() bool { _, err := os.Stat(up); return err == nil })
	}
	return s
}

// start starts a program on the screen.
func (s *screen) start(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name, "LC_ALL=C.UTF-8")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// until waits until ok, looking whenever the screen changes.
func (s *screen) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(end) {
			list, err := s.Windows(s.t.Context())
			s.t.Fatalf("%s: not in time; windows %+v, %v", what, list, err)
		}
		if _, err := s.WaitChange(s.t.Context(), guest.Rect{}, "", 50*time.Millisecond); err != nil {
			s.t.Fatal(err)
		}
	}
}

// window waits for a window with a title.
func (s *screen) window(title string) (w guest.Window) {
	s.t.Helper()
	s.until("window "+title, func() bool {
		list, err := s.Windows(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, w = range list {
			if w.Title == title {
				return true
			}
		}
		return false
	})
	return w
}

func (s *screen) do(items ...guest.Input) {
	s.t.Helper()
	if err := s.Input(s.t.Context(), items); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) shot(q guest.ShotRequest) guest.Shot {
	s.t.Helper()
	shot, err := s.Screenshot(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return shot
}

const text = "Grüße, Ελλάδα, мир, 你好世界, ありがとう, 한국어, €½→♥ \"quoted\" 'x' {[(<~|\\@#$%^&*>)]} 😀🎉 AaZz09\n\tend"

func TestTypesUnicodeIntoATerminal(t *testing.T) {
	t.Parallel()
	s := newScreen(t, true)
	file := filepath.Join(t.TempDir(), "typed")
	s.start("xterm", "-u8", "-T", "editor", "-e", "cat > "+file)
	w := s.window("editor")
	if err := s.FocusWindow(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	many := []rune{}
	for r := rune(0x4e00); r < 0x4e00+40; r++ { // with text, three for each of the 19 spare keys
		many = append(many, r)
	}
	// Each line is read before keys get new meanings: what one means is looked
	// up when the program gets to it, which may be late.
	lines := []string{text}
	for some := range slices.Chunk(many, 20) {
		lines = append(lines, string(some))
	}
	want := ""
	for _, line := range lines {
		s.do(guest.Input{Kind: guest.InputType, Text: line + "\n"})
		want += line + "\n"
		s.until("the file", func() bool { b, _ := os.ReadFile(file); return len(b) >= len(want) })
	}
	s.do(guest.Input{Kind: guest.InputKey, Keys: "ctrl+d"})
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("typed\n%q\ngot\n%q", want, got)
	}
}

func TestKeyboardLayoutChanges(t *testing.T) {
	t.Parallel()
	need(t, map[string]string{"setxkbmap": "x11-xkb-utils"})
	s := newScreen(t, true)
	file := filepath.Join(t.TempDir(), "typed")
	s.start("xterm", "-u8", "-T", "editor", "-e", "cat > "+file)
	if err := s.FocusWindow(t.Context(), s.window("editor").ID); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, layout := range []string{"", "de", "fr", "us"} {
		if layout != "" {
			if err := s.start("setxkbmap", layout).Wait(); err != nil {
				t.Fatal(err)
			}
			// Once a key has arrived, the program knows of the layout and asks no more.
			s.do(guest.Input{Kind: guest.InputType, Text: "\n"})
			want += "\n"
			s.until("the layout", func() bool { b, _ := os.ReadFile(file); return len(b) >= len(want) })
		}
		// The line is read before the layout changes again: what a key means is
		// looked up when a program gets to it.
		const line = "yzaqwm;/?@[{ßéжЖ你\n"
		s.do(guest.Input{Kind: guest.InputType, Text: line})
		want += line
		s.until("the file", func() bool { b, _ := os.ReadFile(file); return len(b) >= len(want) })
	}
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("typed %q, got %q", want, got)
	}
}

// events reads what xev says of a window's events.
func (s *screen) events() (*bufio.Scanner, guest.Window) {
	s.t.Helper()
	cmd := exec.Command("stdbuf", "-oL", "xev", "-name", "xev", "-geometry", "300x200+100+100", "-event", "keyboard", "-event", "button")
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w := s.window("xev")
	return bufio.NewScanner(out), w
}

// next returns the next n events as "KeyPress ctrl" or "ButtonPress 4".
func next(t *testing.T, sc *bufio.Scanner, n int) string {
	t.Helper()
	var list []string
	kind := ""
	for len(list) < n && sc.Scan() {
		line := sc.Text()
		if k, _, ok := strings.Cut(line, " event,"); ok {
			kind = k
		}
		if i := strings.Index(line, "keysym 0x"); i >= 0 {
			list = append(list, kind+" "+strings.TrimSuffix(strings.Fields(line[i:])[2], "),"))
		}
		if i := strings.Index(line, ", button "); i >= 0 {
			b, _, _ := strings.Cut(line[i+9:], ",")
			list = append(list, kind+" "+b)
		}
	}
	return strings.Join(list, "; ")
}

func TestChordsAndButtons(t *testing.T) {
	t.Parallel()
	s := newScreen(t, true)
	sc, w := s.events()
	if err := s.FocusWindow(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	x, y := w.Area.X+50, w.Area.Y+120
	s.do(
		guest.Input{Kind: guest.InputMove, X: x, Y: y},
		guest.Input{Kind: guest.InputKey, Keys: "ctrl+shift+T"},
		guest.Input{Kind: guest.InputKey, Keys: "Page_Down"},
		guest.Input{Kind: guest.InputKeyDown, Keys: "super"},
		guest.Input{Kind: guest.InputKeyUp, Keys: "super"},
		guest.Input{Kind: guest.InputKey, Keys: "€"},
		guest.Input{Kind: guest.InputScroll, DX: -1, DY: 2},
		guest.Input{Kind: guest.InputPress, Button: 3}, guest.Input{Kind: guest.InputRelease, Button: 3},
	)
	want := "KeyPress Control_L; KeyPress Shift_L; KeyPress T; KeyRelease T; KeyRelease Shift_L; KeyRelease Control_L; KeyPress Next; KeyRelease Next; " +
		"KeyPress Super_L; KeyRelease Super_L; KeyPress U20AC; KeyRelease U20AC; " +
		"ButtonPress 5; ButtonRelease 5; ButtonPress 5; ButtonRelease 5; ButtonPress 6; ButtonRelease 6; ButtonPress 3; ButtonRelease 3"
	if got := next(t, sc, 20); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if shot := s.shot(guest.ShotRequest{}); shot.Cursor != [2]int{x, y} {
		t.Errorf("the pointer is at %v", shot.Cursor)
	}
	// What was pressed is released when a later item fails.
	err := s.Input(t.Context(), []guest.Input{
		{Kind: guest.InputKeyDown, Keys: "ctrl"}, {Kind: guest.InputPress, Button: 1}, {Kind: guest.InputMove, X: 5000, Y: 1},
	})
	if glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), "input 3 of 3") || !strings.Contains(err.Error(), "1280x800") {
		t.Errorf("error %v", err)
	}
	if got := next(t, sc, 4); got != "KeyPress Control_L; ButtonPress 1; KeyRelease Control_L; ButtonRelease 1" {
		t.Errorf("got %s", got)
	}
}

func TestDragAndFocus(t *testing.T) {
	t.Parallel()
	s := newScreen(t, true)
	s.start("xterm", "-T", "one", "-geometry", "40x10+100+100")
	one := s.window("one")
	s.start("xterm", "-T", "two", "-geometry", "40x10+600+300")
	two := s.window("two")
	for _, w := range []guest.Window{one, two} {
		if err := s.FocusWindow(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
		s.until("the front", func() bool { // it may have been one of two that come to the front at the same time
			list, err := s.Windows(t.Context())
			return err == nil && len(list) == 2 && list[0].ID == w.ID && list[0].Active && !list[1].Active && list[0].Class == "XTerm"
		})
	}
	if err := s.FocusWindow(t.Context(), 12345); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("error %v", err)
	}
	two = s.window("two")
	x, y := two.Area.X+80, two.Area.Y-8                                         // its title
	pause := guest.Input{Kind: guest.InputPause, Pause: 100 * time.Millisecond} // as a hand makes them
	s.do(guest.Input{Kind: guest.InputMove, X: x, Y: y}, guest.Input{Kind: guest.InputPress, Button: 1}, pause,
		guest.Input{Kind: guest.InputMove, X: x - 30, Y: y - 20}, pause, guest.Input{Kind: guest.InputMove, X: x - 200, Y: y + 100}, pause,
		guest.Input{Kind: guest.InputRelease, Button: 1})
	s.until("the drag", func() bool {
		w := s.window("two")
		return w.Area.X == two.Area.X-200 && w.Area.Y == two.Area.Y+100
	})
}

func TestClickOnAButton(t *testing.T) {
	t.Parallel()
	need(t, map[string]string{"xmessage": "x11-utils"})
	s := newScreen(t, true)
	cmd := s.start("xmessage", "-title", "ask", "-buttons", "no:3,yes:7", "-geometry", "200x80+300+300", "sure?")
	w := s.window("ask")
	s.until("a picture of it", func() bool { return len(s.shot(guest.ShotRequest{Window: w.ID}).Data) > 600 })
	s.do(guest.Input{Kind: guest.InputMove, X: w.Area.X + 50, Y: w.Area.Y + 67}, guest.Input{Kind: guest.InputPause, Pause: 100 * time.Millisecond},
		guest.Input{Kind: guest.InputPress, Button: 1}, guest.Input{Kind: guest.InputRelease, Button: 1})
	done := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer done.Stop()
	err := cmd.Wait()
	if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.ExitCode() != 7 {
		t.Errorf("it ended with %v", err)
	}
}

// decode returns the picture of a shot.
func decode(t *testing.T, s guest.Shot) image.Image {
	t.Helper()
	img, _, err := image.Decode(bytes.NewReader(s.Data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// imported is the screen as ImageMagick sees it.
func (s *screen) imported() image.Image {
	s.t.Helper()
	cmd := exec.Command("import", "-window", "root", "png:-")
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(out))
	if err != nil {
		s.t.Fatal(err)
	}
	return img
}

// differ counts the pixels of two screens that are not the same.
func differ(a, b image.Image) (n int) {
	for y := range 800 {
		for x := range 1280 {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			if r1>>8 != r2>>8 || g1>>8 != g2>>8 || b1>>8 != b2>>8 {
				n++
			}
		}
	}
	return n
}

func TestScreenshot(t *testing.T) {
	t.Parallel()
	need(t, map[string]string{"import": "imagemagick", "xsetroot": "x11-xserver-utils"})
	s := newScreen(t, true)
	s.start("xsetroot", "-solid", "#204060")
	s.start("xterm", "-T", "w", "-geometry", "60x20+200+150", "-e", "seq 100; sleep 1000")
	w := s.window("w")
	s.until("the colours", func() bool {
		a := decode(t, s.shot(guest.ShotRequest{Area: guest.Rect{W: 1, H: 1}})).At(0, 0)
		r, g, b, _ := a.RGBA()
		return r>>8 == 0x20 && g>>8 == 0x40 && b>>8 == 0x60
	})
	if shot := s.shot(guest.ShotRequest{}); shot.W != 1280 || shot.H != 800 || decode(t, shot).Bounds().Dx() != 1280 || shot.Area != (guest.Rect{W: 1280, H: 800}) {
		t.Errorf("shot %+v", shot.Area)
	}
	// What is drawn between the two pictures is in one of them only.
	s.until("the picture that import sees", func() bool {
		return differ(decode(t, s.shot(guest.ShotRequest{})), s.imported()) <= 4000 // the text cursor may blink
	})
	win := s.shot(guest.ShotRequest{Window: w.ID})
	if win.Area != w.Area || decode(t, win).Bounds().Dx() != w.Area.W {
		t.Errorf("window: %+v, want %+v", win.Area, w.Area)
	}
	small := s.shot(guest.ShotRequest{MaxW: 640, MaxH: 600, JPEG: 80, Pointer: true})
	if small.W != 640 || small.H != 400 || decode(t, small).Bounds().Dy() != 400 {
		t.Errorf("small: %dx%d", small.W, small.H)
	}
	s.until("the same picture", func() bool { // something may be drawn between two
		small := s.shot(guest.ShotRequest{MaxW: 640, MaxH: 600, JPEG: 80, Pointer: true})
		return small.Digest == s.shot(guest.ShotRequest{}).Digest && len(s.shot(guest.ShotRequest{Unless: small.Digest}).Data) == 0
	})
	for _, q := range []guest.ShotRequest{{Area: guest.Rect{X: 2000, W: 1, H: 1}}, {JPEG: 101}, {MaxW: -1}, {Area: guest.Rect{W: -1, H: -1}}} {
		if _, err := s.Screenshot(t.Context(), q); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := s.Screenshot(t.Context(), guest.ShotRequest{Window: 4711}); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("error %v", err)
	}
	huge := s.shot(guest.ShotRequest{Area: guest.Rect{X: -1 << 62, Y: -5, W: 1<<62 + 1<<61, H: 1 << 62}, MaxW: 10})
	_ = huge
}

func TestWaitChange(t *testing.T) {
	t.Parallel()
	s := newScreen(t, true)
	var before guest.Shot
	s.until("a screen at rest", func() bool {
		before = s.shot(guest.ShotRequest{})
		changed, err := s.WaitChange(t.Context(), guest.Rect{}, before.Digest, 20*time.Millisecond)
		return !changed && err == nil
	})
	s.start("xterm", "-geometry", "20x5+0+0")
	changed, err := s.WaitChange(t.Context(), guest.Rect{}, before.Digest, 2*time.Minute)
	if !changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	corner := guest.Rect{X: 1200, Y: 700, W: 80, H: 100}
	d := s.shot(guest.ShotRequest{Area: corner}).Digest
	if changed, err = s.WaitChange(t.Context(), corner, d, 100*time.Millisecond); changed || err != nil {
		t.Errorf("the corner changed: %v, %v", changed, err)
	}
	if changed, err = s.WaitChange(t.Context(), guest.Rect{}, "another", time.Second); !changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
}
