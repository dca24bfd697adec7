//go:build linux

package display

import (
	"bytes"
	"image/png"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

func listen(t *testing.T, sock string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func noise(w, h int) pixels {
	r := rand.New(rand.NewPCG(1, uint64(w)))
	p := pixels{b: make([]byte, 4*w*h), w: w, h: h}
	for i := range p.b {
		if r.IntN(3) == 0 {
			p.b[i] = byte(r.Uint32())
		}
	}
	return p
}

func TestPNGIsLossless(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1, 1}, {3, 5}, {16, 2}, {100, 70}, {1283, 13}} {
		p := noise(size[0], size[1])
		copy(p.b[len(p.b)/2:], p.b[:len(p.b)/4]) // some of it repeats
		img, err := png.Decode(bytes.NewReader(encodePNG(p)))
		if err != nil {
			t.Fatal(size, err)
		}
		for y := range p.h {
			for x := range p.w {
				r, g, b, _ := img.At(x, y).RGBA()
				px := p.row(y)[4*x:]
				if byte(r>>8) != px[2] || byte(g>>8) != px[1] || byte(b>>8) != px[0] {
					t.Fatalf("%v: pixel %d,%d differs", size, x, y)
				}
			}
		}
	}
}

func TestShrinkKeepsTheMean(t *testing.T) {
	t.Parallel()
	p := pixels{b: bytes.Repeat([]byte{10, 200, 255, 0}, 37*23), w: 37, h: 23}
	for _, size := range [][2]int{{36, 22}, {17, 3}, {1, 1}} {
		s := shrink(p, size[0], size[1], nil)
		for i := 0; i < len(s.b); i += 4 {
			if s.b[i] != 10 || s.b[i+1] != 200 || s.b[i+2] != 255 {
				t.Fatalf("%v: %v", size, s.b[i:i+4])
			}
		}
	}
	// Two columns, black and white, become grey.
	p = pixels{b: bytes.Repeat([]byte{0, 0, 0, 0, 255, 255, 255, 0}, 8), w: 2, h: 8}
	if s := shrink(p, 1, 4, nil); s.b[0] < 127 || s.b[0] > 128 {
		t.Errorf("grey is %d", s.b[0])
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range [][6]int{{1280, 800, 0, 0, 1280, 800}, {1280, 800, 640, 0, 640, 400}, {1280, 800, 640, 100, 160, 100}, {100, 50, 640, 480, 100, 50}, {5000, 1, 10, 10, 10, 1}} {
		if w, h := fit(c[0], c[1], c[2], c[3]); w != c[4] || h != c[5] {
			t.Errorf("%v: got %dx%d", c, w, h)
		}
	}
}

func TestParseChord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]keysym{
		"a": {'a'}, "A": {'A'}, "ctrl+A": {0xffe3, 'a'}, "ctrl++": {0xffe3, '+'}, "+": {'+'}, "Return": {symReturn}, "enter": {symReturn},
		"ENTER": {symReturn}, "ctrl+shift+Tab": {0xffe3, symShift, symTab}, "Page_Down": {0xff56}, "F12": {0xffc9}, "KP_0": {0xffb0},
		"super": {0xffeb}, "cmd+c": {0xffeb, 'c'}, "é": {0xe9}, "你": {0x1004f60}, "U20AC": {0x10020ac}, "alt+F4": {0xffe9, 0xffc1}, "ctrl+minus": {0xffe3, '-'},
		"space": {' '}, "\tctrl + s\n": {0xffe3, 's'},
	} {
		got, err := parseChord(text)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v", text, got, err)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %x, want %x", text, got, want)
			}
		}
	}
	for _, text := range []string{"", "nokey", "ctrl+", "a+b+c+d+e+f+g+h+i", "\x01"} {
		if _, err := parseChord(text); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%q: taken (%v)", text, err)
		}
	}
}

func TestInputBounds(t *testing.T) {
	t.Parallel()
	d := New(func() string { return "/no/such/socket" })
	for _, items := range [][]guest.Input{
		{{Kind: "fly"}}, {{Kind: guest.InputPress}}, {{Kind: guest.InputScroll, DY: 1000}}, {{Kind: guest.InputType, Text: "\xff"}},
		{{Kind: guest.InputType, Text: "a\x00"}}, {{Kind: guest.InputPause, Pause: -1}}, {{Kind: guest.InputPause, Pause: 1 << 40}},
		{{Kind: guest.InputScroll, DX: -1 << 63}}, make([]guest.Input, maxItems+1),
	} {
		if err := d.Input(t.Context(), items); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%d of %+v: %v", len(items), items[0], err)
		}
	}
	if err := d.Input(t.Context(), []guest.Input{{Kind: guest.InputType, Text: string(make([]byte, maxText+1))}}); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Error(err)
	}
	if err := d.Input(t.Context(), []guest.Input{{Kind: guest.InputMove}}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Error(err)
	}
}

func BenchmarkPNG(b *testing.B) {
	p := pixels{b: make([]byte, 4*1280*800), w: 1280, h: 800}
	for y := range p.h { // a gradient with text-like noise in a fifth of it
		for x := range p.w {
			at := p.row(y)[4*x:]
			at[0], at[1], at[2] = byte(y/4), byte(y/5), byte(y/6)
			if x > 600 && x < 1000 && y > 200 && y < 600 && (x*31+y*17)%7 == 0 {
				at[0], at[1], at[2] = 255, 255, byte(x)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		encodePNG(p)
	}
}

func BenchmarkShrink(b *testing.B) {
	p := noise(1920, 1080)
	var buf []byte
	for b.Loop() {
		buf = shrink(p, 1280, 720, buf[:0]).b
	}
}
