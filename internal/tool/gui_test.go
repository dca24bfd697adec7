//go:build linux

package tool

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/rfb"
)

// displays gives each test a display number of its own.
var displays atomic.Int64

// newDesk is a box with a display and a window manager that run.
func newDesk(t *testing.T, geometry string) *box {
	t.Helper()
	b := newDeskOff(t, geometry)
	if err := b.env.Guest.StartServices(t.Context()); err != nil {
		for _, name := range []string{"display", "desktop"} {
			log, _ := b.env.Guest.ServiceLog(t.Context(), name, 2000)
			t.Log(log)
		}
		t.Fatal(err)
	}
	return b
}

// newDeskOff is a box whose display was not started yet.
func newDeskOff(t *testing.T, geometry string) *box {
	t.Helper()
	for p, pkg := range map[string]string{"Xvnc": "tigervnc-standalone-server", "openbox": "openbox", "xterm": "xterm", "xmessage": "x11-utils"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: apt-get install %s", p, pkg)
		}
	}
	root, err := os.MkdirTemp("", "gui") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	number := int(displays.Add(1)) + 400 + os.Getpid()%1000*10
	name := ":" + strconv.Itoa(number)
	t.Cleanup(func() {
		os.Remove("/tmp/.X11-unix/X" + name[1:])
		os.Remove("/tmp/.X" + name[1:] + "-lock")
	})
	sock, ready := root+"/run/glovebox/display.sock", root+"/run/glovebox/desktop.ready"
	list := fmt.Sprintf(`[
		{"name":"display","command":["Xvnc",%q,"-geometry",%q,"-depth","24","-nolisten","tcp","-noreset","-rfbport","-1","-rfbunixpath",%q,
			"-SecurityTypes","VncAuth","-PasswordFile",%q],
			"ready":{"unix":"/run/glovebox/display.sock"},"secret":{"path":"/run/glovebox/display.secret","format":"vncpasswd"}},
		{"name":"desktop","command":["openbox","--startup","touch %s"],"env":{"DISPLAY":%q},"after":["display"],"ready":{"path":"/run/glovebox/desktop.ready"}}]`,
		name, geometry, sock, root+"/run/glovebox/display.secret", ready, name)
	if err := os.MkdirAll(root+"/etc/glovebox", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/etc/glovebox/services.json", []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	server, err := guestd.New(guestd.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	b := &box{t: t, dir: filepath.Join(root, guest.Workspace), server: server, kept: map[string][]byte{}}
	b.env = &Env{Job: &glovebox.Job{Limits: glovebox.Limits{MemoryBytes: 1 << 30}}}
	b.connect()
	if err := b.env.Guest.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{7}, 32)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGUIStartsTheDisplay(t *testing.T) {
	t.Parallel()
	b := newDeskOff(t, "640x480")
	b.good([]string{"The screen, 640x480."}, "gui", "action", "screenshot")
	bare := newBox(t)
	bare.bad([]string{"has no screen"}, "gui", "action", "screenshot")
}

// picture returns the image of a result.
func (b *box) picture(r Result) image.Image {
	b.t.Helper()
	for _, c := range r.Content {
		if c.Type == glovebox.BlockImage {
			img, _, err := image.Decode(bytes.NewReader(c.Data))
			if err != nil {
				b.t.Fatal(err)
			}
			return img
		}
	}
	b.t.Fatalf("no picture: %s", textOf(r))
	return nil
}

// place returns where a window is, from the tool's own list.
func (b *box) place(title string) (r [4]int) {
	b.t.Helper()
	text := b.good(nil, "gui", "action", "windows")
	m := regexp.MustCompile(regexp.QuoteMeta(strconv.Quote(title)) + ` \(\S*\) at \[(\d+), (\d+), (\d+), (\d+)\]`).FindStringSubmatch(text)
	if m == nil {
		b.t.Fatalf("no window %q:\n%s", title, text)
	}
	for i := range r {
		r[i], _ = strconv.Atoi(m[i+1])
	}
	return r
}

func TestGUIWorksPrograms(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "1280x800")
	file := filepath.Join(b.dir, "typed.txt")
	b.good([]string{"Opened the window", `"editor" (XTerm)`}, "gui", "action", "open", "text", "xterm -u8 -T editor -geometry 60x10+50+400 -e 'cat > "+file+"'")
	b.good([]string{`"editor" (XTerm) at [`}, "gui", "action", "windows")
	b.good(nil, "gui", "action", "focus", "window", "EDITOR")
	r := b.call("gui", "action", "type", "text", "Straße, 你好, €5\nsecond line\n")
	if !strings.Contains(textOf(r), "The screen changed within [") {
		t.Error(textOf(r))
	}
	if p := b.picture(r); p.Bounds().Dx() != 1280 {
		t.Error(p.Bounds())
	}
	b.good([]string{"Closed the window"}, "gui", "action", "key", "text", "ctrl+d")
	if got := b.read("typed.txt"); got != "Straße, 你好, €5\nsecond line\n" {
		t.Errorf("the file holds %q", got)
	}
	b.good([]string{"Opened"}, "gui", "action", "open", "text", "xmessage -title ask -buttons no:3,yes:7 -geometry 200x80+300+300 sure")
	at := b.place("ask")
	b.good([]string{"Closed the window", `"ask"`}, "gui", "action", "left_click", "coordinate", []int{at[0] + 47, at[1] + 67})
	b.good([]string{"Nothing on the screen changed"}, "gui", "action", "left_click", "coordinate", []int{1270, 5})
	b.good([]string{"X=1270,Y=5"}, "gui", "action", "cursor_position")
	b.good([]string{"No window"}, "gui", "action", "windows")
	b.bad([]string{"not on the screen, which is 1280x800"}, "gui", "action", "left_click", "coordinate", []int{1280, 5})
	b.bad([]string{"is no key"}, "gui", "action", "key", "text", "ctrl+nokey")
	b.bad([]string{"not found"}, "gui", "action", "open", "text", "no-such-program")
	b.bad([]string{"nothing to read"}, "gui", "action", "read")
	b.bad([]string{`"region"`}, "gui", "action", "zoom", "region", []int{5, 5, 1, 1})
	b.bad([]string{"action"}, "gui", "action", "dance")
	b.good([]string{"Nothing changed within 1s"}, "gui", "action", "wait_for_change", "duration", 1)
}

func TestGUIScalesCoordinates(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "2560x1600")
	b.good([]string{"Opened"}, "gui", "action", "open", "text", "xterm -T big -geometry 80x20+1000+800")
	shot := b.call("gui", "action", "screenshot")
	if p := b.picture(shot); p.Bounds().Dx() != 1280 || p.Bounds().Dy() != 800 {
		t.Error(p.Bounds())
	}
	b.good(nil, "gui", "action", "mouse_move", "coordinate", []int{600, 100})
	s, err := b.env.Guest.Screenshot(t.Context(), guest.ShotRequest{})
	if err != nil || s.Cursor != [2]int{1201, 201} {
		t.Errorf("the pointer is at %v, %v", s.Cursor, err)
	}
	b.good([]string{"X=600,Y=100"}, "gui", "action", "cursor_position")
	at := b.place("big")
	// Dragged by its title by 100 of the model's pixels, it moves by 200.
	b.good([]string{"The screen changed"}, "gui", "action", "left_click_drag", "start_coordinate", []int{at[0] + 60, at[1] - 5}, "coordinate", []int{at[0] + 160, at[1] - 55})
	if now := b.place("big"); now[0] != at[0]+100 || now[1] != at[1]-50 {
		t.Errorf("it moved from %v to %v", at, now)
	}
	z := b.call("gui", "action", "zoom", "region", []int{100, 100, 300, 200})
	if p := b.picture(z); p.Bounds().Dx() != 400 {
		t.Error(p.Bounds(), textOf(z))
	}
	w := b.call("gui", "action", "screenshot", "window", "big")
	if p := b.picture(w); p.Bounds().Dx() < 400 {
		t.Error(p.Bounds(), textOf(w))
	}
}

func TestGUIDisplayDies(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "1280x800")
	pid := b.displayPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	text := ""
	for range 5 { // it may be there again before the tool looks
		r := b.call("gui", "action", "open", "text", "xterm -T again")
		if text = textOf(r); !r.IsError {
			break
		}
		if !strings.Contains(text, "The display") {
			t.Error(text)
		}
	}
	if !strings.Contains(text, "again") {
		t.Error(text)
	}
	services, err := b.env.Guest.Services(t.Context())
	for end := time.Now().Add(time.Minute); err == nil && services[0].Restarts == 0 && time.Now().Before(end); {
		services, err = b.env.Guest.Services(t.Context())
	}
	if err != nil || services[0].Restarts != 1 || services[0].LastExit != "ended by SIGKILL" {
		t.Errorf("services %+v, %v", services, err)
	}
}

func TestGUIDisplayLockedUp(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "1280x800")
	if err := syscall.Kill(b.displayPID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopping, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	for err == nil { // it may go on for a moment
		_, err = b.env.Guest.Screenshot(stopping, guest.ShotRequest{})
	}
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "locked up") {
		t.Error(err)
	}
	b.bad([]string{"locked up", "started again"}, "gui", "action", "screenshot")
	b.good([]string{"The screen, 1280x800."}, "gui", "action", "screenshot")
}

// displayPID finds the X server by its log, which names nobody else's.
func (b *box) displayPID() int {
	b.t.Helper()
	root := strings.TrimSuffix(b.dir, guest.Workspace)
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, d := range dirs {
		line, _ := os.ReadFile(d)
		if bytes.HasPrefix(line, []byte("Xvnc\x00")) && bytes.Contains(line, []byte(root)) {
			pid, _ := strconv.Atoi(strings.Split(d, "/")[2])
			return pid
		}
	}
	b.t.Fatal("no X server")
	return 0
}

func TestGUIWaitsForControl(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "640x480")
	var mu sync.Mutex
	holder, changed := glovebox.ControlUser, make(chan struct{})
	asked := make(chan struct{}, 10)
	b.env.Control = func() (glovebox.Control, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		asked <- struct{}{}
		return holder, changed
	}
	b.good([]string{"The screen, 640x480."}, "gui", "action", "screenshot") // looking is allowed
	done := make(chan Result, 1)
	go func() { done <- b.call("gui", "action", "left_click", "coordinate", []int{10, 10}) }()
	<-asked
	mu.Lock()
	holder = glovebox.ControlAgent
	close(changed)
	mu.Unlock()
	if r := <-done; !strings.Contains(textOf(r), "A person had mouse and keyboard") || r.IsError {
		t.Error(textOf(r))
	}
	mu.Lock()
	holder, changed = glovebox.ControlUser, make(chan struct{})
	mu.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; <-asked; cancel(ErrYield) }()
	r, err := b.try(ctx, "gui", "action", "key", "text", "a")
	if err != nil || !strings.Contains(textOf(r), "interrupted by a message") {
		t.Error(textOf(r), err)
	}
}

func TestServiceSecretOpensTheDisplay(t *testing.T) {
	t.Parallel()
	b := newDesk(t, "640x480")
	secret := b.env.Guest.ServiceSecret(guest.ServiceDisplay)
	enter := func(password string) error {
		conn, err := b.env.Guest.DialService(t.Context(), guest.ServiceDisplay)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := rfb.Dial(ctx, conn, password)
		if err == nil {
			d.Close()
		}
		return err
	}
	if err := enter(secret); err != nil {
		t.Error(err)
	}
	// Bound to another job, it has another secret.
	if err := b.env.Guest.Bind(t.Context(), guest.Settings{Secret: bytes.Repeat([]byte{8}, 32)}); err != nil {
		t.Fatal(err)
	}
	if err := enter(secret); err == nil {
		t.Error("the old secret still opens it")
	}
	if b.env.Guest.ServiceSecret(guest.ServiceDisplay) == secret {
		t.Error("the secret is the same")
	}
	_, err := b.env.Guest.DialService(t.Context(), "nothing")
	if glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Error(err)
	}
}
