package guest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// lies answers every call with one message.
func lies(t *testing.T, m proto.Message) *Client {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return liar{answer: func(string) string { return httpOK(b) }}.dial(t, Options{})
}

// pngOf returns a PNG that claims to have a size.
func pngOf(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	head := b.Bytes()[12:29]
	binary.BigEndian.PutUint32(head[4:], uint32(w))
	binary.BigEndian.PutUint32(head[8:], uint32(h))
	binary.BigEndian.PutUint32(b.Bytes()[29:], crc32.ChecksumIEEE(head))
	return b.Bytes()
}

func TestLyingPictures(t *testing.T) {
	t.Parallel()
	var asGIF, asJPEG bytes.Buffer
	if err := gif.Encode(&asGIF, image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black}), nil); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&asJPEG, image.NewGray(image.Rect(0, 0, 2, 2)), nil); err != nil {
		t.Fatal(err)
	}
	area := &guestpb.Rect{W: 1280, H: 800}
	for name, tt := range map[string]struct {
		data []byte
		area *guestpb.Rect
		q    ShotRequest
		ok   bool
	}{
		"honest":            {pngOf(t, 1280, 800), area, ShotRequest{MaxW: 1280, MaxH: 800}, true},
		"as large as it is": {pngOf(t, 5120, 2880), area, ShotRequest{}, true},
		"a bomb":            {pngOf(t, 16_000, 16_000), area, ShotRequest{}, false},
		"wide beyond int32": {pngOf(t, 1<<31-1, 1), area, ShotRequest{}, false},
		"more than asked":   {pngOf(t, 1281, 800), area, ShotRequest{MaxW: 1280, MaxH: 800}, false},
		"higher than asked": {pngOf(t, 1280, 801), area, ShotRequest{MaxH: 800}, false},
		"a GIF":             {asGIF.Bytes(), area, ShotRequest{}, false},
		"a JPEG unasked":    {asJPEG.Bytes(), area, ShotRequest{}, false},
		"a JPEG":            {asJPEG.Bytes(), area, ShotRequest{JPEG: 50}, true},
		"a script":          {[]byte("<svg onload=alert(1)>"), area, ShotRequest{}, false},
		"of nowhere":        {pngOf(t, 10, 10), &guestpb.Rect{W: -1, H: 1}, ShotRequest{}, false},
		"of no area":        {pngOf(t, 10, 10), nil, ShotRequest{}, false},
		"nothing":           {nil, area, ShotRequest{}, false},
		"not what is known": {nil, area, ShotRequest{Unless: "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := lies(t, &guestpb.Shot{Data: tt.data, Area: tt.area, W: 1, H: 1 << 30, Digest: strings.Repeat("d", 1<<16)}).Screenshot(t.Context(), tt.q)
			if (err == nil) != tt.ok || err != nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
				t.Fatalf("%v", err)
			}
			if err == nil && (s.H == 1<<30 || len(s.Digest) > 80) {
				t.Errorf("its word was taken: %d, %d", s.H, len(s.Digest))
			}
		})
	}
}

// TestLyingLists: lists are cut and texts cleaned, whatever a guest says.
func TestLyingLists(t *testing.T) {
	t.Parallel()
	const many = 20_000
	evil := "\x1b]0;x\x07a\u202eb\u009b\u2028\xffc" + strings.Repeat("z", 600)
	harmless := func(what, s string) {
		if s == "" || strings.ContainsAny(s, "\x1b\x07\u202e\u009b\u2028") || len(s) > 600 {
			t.Errorf("%s: %q", what, s)
		}
	}
	evil = strings.ToValidUTF8(evil, "\ufffd") // as protobuf demands
	services, windows, listeners := &guestpb.ServiceList{}, &guestpb.WindowList{}, &guestpb.ListenerList{}
	kernels := &guestpb.KernelList{}
	for i := range many {
		services.Services = append(services.Services, &guestpb.ServiceState{Name: evil, LastExit: evil})
		windows.Windows = append(windows.Windows, &guestpb.Window{Title: evil, Class: evil})
		listeners.Listeners = append(listeners.Listeners, &guestpb.Listener{Port: uint32(i % 70_000), Address: evil, Command: evil})
		kernels.Kernels = append(kernels.Kernels, &guestpb.KernelState{Name: evil})
	}
	services.Services, windows.Windows, listeners.Listeners = services.Services[:1000], windows.Windows[:1000], listeners.Listeners[:1500]
	if list, err := lies(t, services).Services(t.Context()); err != nil || len(list) != maxServices {
		t.Errorf("services: %d, %v", len(list), err)
	} else {
		harmless("service", list[0].Name)
		harmless("exit", list[0].LastExit)
	}
	if list, err := lies(t, windows).Windows(t.Context()); err != nil || len(list) != maxWindows {
		t.Errorf("windows: %d, %v", len(list), err)
	} else {
		harmless("title", list[0].Title)
		harmless("class", list[0].Class)
	}
	if list, err := lies(t, listeners).Listeners(t.Context()); err != nil || len(list) >= 1500 || len(list) > maxListeners {
		t.Errorf("listeners: %d, %v", len(list), err)
	} else {
		harmless("command", list[0].Command)
	}
	if list, err := lies(t, kernels).Kernels(t.Context()); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("kernels: %d, %v", len(list), err)
	}
	if text, err := lies(t, &guestpb.ServiceLogReply{Text: bytes.Repeat([]byte("\x1b[2J\xff"), 1<<16)}).ServiceLog(t.Context(), "x", 100); err != nil || len(text) > 600 || strings.Contains(text, "\x1b") {
		t.Errorf("log: %d, %v", len(text), err)
	}
}

// TestListsAreNoBombs: an answer within its bound of bytes does not become a
// hundred times as large in memory. No other test allocates meanwhile: it is
// not one of those in parallel.
func TestListsAreNoBombs(t *testing.T) {
	empties := httpOK(bytes.Repeat([]byte{1<<3 | 2, 0}, 4<<20))
	c := liar{answer: func(string) string { return empties }}.dial(t, Options{})
	var before, after runtime.MemStats
	for name, f := range map[string]func() error{
		"services":  func() error { _, err := c.Services(t.Context()); return err },
		"windows":   func() error { _, err := c.Windows(t.Context()); return err },
		"listeners": func() error { _, err := c.Listeners(t.Context()); return err },
		"kernels":   func() error { _, err := c.Kernels(t.Context()); return err },
		"processes": func() error { _, err := c.Processes(t.Context()); return err },
		"directory": func() error { _, _, err := c.ReadDir(t.Context(), "/"); return err },
	} {
		runtime.ReadMemStats(&before)
		if err := f(); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 300<<20 {
			t.Errorf("%s took %d MiB", name, took>>20)
		}
	}
}
