//go:build linux

package history

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// forge writes packs as a hostile guest may.
type forge struct {
	n    uint32
	body bytes.Buffer
}

func (f *forge) add(k kind, content []byte) oid { return f.announce(k, content, int64(len(content))) }

// announce adds an object whose head tells another size.
func (f *forge) announce(k kind, content []byte, size int64) oid {
	f.n++
	c := byte(k)<<4 | byte(size&15)
	for rest := size >> 4; ; rest >>= 7 {
		if rest == 0 {
			f.body.WriteByte(c)
			break
		}
		f.body.WriteByte(c | 0x80)
		c = byte(rest & 0x7f)
	}
	zw := zlib.NewWriter(&f.body)
	zw.Write(content)
	zw.Close()
	h := newHash(kinds[k].name, int64(len(content)))
	h.Write(content)
	return oid(h.Sum(nil))
}

func (f *forge) tree(entries ...entry) oid {
	var b []byte
	for _, e := range entries {
		b = fmt.Appendf(b, "%o %s\x00", e.mode, e.name)
		b = append(b, e.id[:]...)
	}
	return f.add(kindTree, b)
}

func (f *forge) commit(tree oid) string {
	return f.add(kindCommit, fmt.Appendf(nil, "tree %s\n\nm\n", tree)).String()
}

func (f *forge) pack() []byte {
	b := binary.BigEndian.AppendUint32([]byte(packMagic), f.n)
	b = append(b, f.body.Bytes()...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func loadForged(t testing.TB, pack []byte) (*Repo, error) {
	t.Helper()
	s := newShelf()
	s.packs["p"] = pack
	r := New(s.open)
	return r, r.Load(t.Context(), []string{"p"})
}

// seal puts the right checksum under a pack.
func seal(b []byte) []byte {
	sum := sha1.Sum(b)
	return append(slices.Clone(b), sum[:]...)
}

func TestHostilePacks(t *testing.T) {
	t.Parallel()
	with := func(f func(*forge)) []byte {
		g := &forge{}
		f(g)
		return g.pack()
	}
	good := with(func(f *forge) { f.commit(f.tree(entry{modeFile, "a", f.add(kindBlob, []byte("x"))})) })
	if _, err := loadForged(t, good); err != nil {
		t.Fatal(err)
	}
	for name, pack := range map[string][]byte{
		"empty": {}, "short": []byte(packMagic), "text": []byte(strings.Repeat("hello ", 20)),
		"version": append([]byte("PACK\x00\x00\x00\x03"), good[8:]...),
		"many":    seal(append([]byte(packMagic), 255, 255, 255, 255)),
		"fewer":   seal(append(binary.BigEndian.AppendUint32([]byte(packMagic), 9), good[packHead:len(good)-20]...)),
		"more":    seal(append(slices.Clone(good[:len(good)-20]), "something"...)),
		"sum":     append(slices.Clone(good[:len(good)-1]), good[len(good)-1]^1),
		"delta":   with(func(f *forge) { f.add(7, []byte("x")) }),
		"offset":  with(func(f *forge) { f.add(6, []byte("x")) }),
		"tag":     with(func(f *forge) { f.add(4, []byte("x")) }),
		"none":    with(func(f *forge) { f.add(0, []byte("x")) }),
		"smaller": with(func(f *forge) { f.announce(kindBlob, []byte("xx"), 9) }),
		"larger":  with(func(f *forge) { f.announce(kindBlob, make([]byte, 1<<20), 10) }),
		"huge":    with(func(f *forge) { f.announce(kindBlob, nil, 1<<40) }),
		"tree":    with(func(f *forge) { f.announce(kindTree, nil, maxTree+1) }),
		"commit":  with(func(f *forge) { f.add(kindCommit, make([]byte, maxCommit+1)) }),
		"size":    seal(append(binary.BigEndian.AppendUint32([]byte(packMagic), 1), bytes.Repeat([]byte{0xff}, 30)...)),
		"no zlib": seal(append(binary.BigEndian.AppendUint32([]byte(packMagic), 1), 0x31, 'a', 'b', 'c', 'd')),
	} {
		r, err := loadForged(t, pack)
		if glovebox.CodeOf(err) != glovebox.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
		if again := r.Load(t.Context(), []string{"p"}); again == nil || r.size() != 0 {
			t.Errorf("%s: read the second time, %d objects", name, r.size())
		}
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		if _, err := loadForged(t, bad); err == nil {
			t.Errorf("byte %d can be changed", i)
		}
	}
}

func TestHostileTrees(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", ".", "", "a/b", "/etc", strings.Repeat("x", 256)} {
		g := &forge{}
		c := g.commit(g.tree(entry{modeFile, name, g.add(kindBlob, []byte("x"))}))
		r, err := loadForged(t, g.pack())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.List(t.Context(), c, "."); glovebox.CodeOf(err) != glovebox.CodeConflict {
			t.Errorf("name %.20q: %v", name, err)
		}
		if _, err := r.Diff(t.Context(), "", c, ""); glovebox.CodeOf(err) != glovebox.CodeConflict {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	g := &forge{}
	x := g.add(kindBlob, []byte("x"))
	commits := map[string]string{
		"twice":       g.commit(g.tree(entry{modeFile, "a", x}, entry{modeExec, "a", x})),
		"mode":        g.commit(g.tree(entry{0o160000, "module", x})),
		"blob as dir": g.commit(g.tree(entry{modeDir, "d", x})),
		"no tree":     g.commit(x),
		"gone":        g.commit(g.tree(entry{modeFile, "a", oid{1}}, entry{modeDir, "d", oid{2}})),
		"cut":         g.commit(g.add(kindTree, []byte("100644 a\x00short"))),
		"text":        g.add(kindCommit, []byte("hello")).String(),
		"odd":         g.add(kindCommit, []byte("tree ../../etc/passwd\n")).String(),
	}
	r, err := loadForged(t, g.pack())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range commits {
		if _, err := r.Diff(t.Context(), "", c, ""); err == nil {
			t.Errorf("%s: compared", name)
		}
		if _, _, err := r.Read(t.Context(), c, "d/a", 0, 1); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// TestTreeBomb: a directory of ten that are the same of ten that are the
// same... is 10^20 files in a small pack.
func TestTreeBomb(t *testing.T) {
	t.Parallel()
	for _, wide := range []int{1, 10} {
		g := &forge{}
		id := g.tree(entry{modeFile, "f", g.add(kindBlob, []byte("x"))})
		depth := 20
		if wide == 1 {
			depth = maxDepth + 10
		}
		for range depth {
			var list []entry
			for i := range wide {
				list = append(list, entry{modeDir, fmt.Sprint("d", i), id})
			}
			id = g.tree(list...)
		}
		c := g.commit(id)
		r, err := loadForged(t, g.pack())
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Diff(t.Context(), "", c, "")
		if wide == 1 && err == nil || wide == 10 && (err != nil || !d.More) {
			t.Errorf("%d wide: %d files, more %v, %v", wide, len(d.Files), d.More, err)
		}
	}
	// Directories without files cost time alone.
	g := &forge{}
	id := g.tree()
	for range 20 {
		var list []entry
		for i := range 10 {
			list = append(list, entry{modeDir, fmt.Sprint("d", i), id})
		}
		id = g.tree(list...)
	}
	c := g.commit(id)
	r, err := loadForged(t, g.pack())
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.Diff(t.Context(), "", c, ""); err != nil || !d.More {
		t.Errorf("empty: %v, %v", d, err)
	}
}

func FuzzLoad(f *testing.F) {
	w := newWorld(f)
	w.write("a", "hello")
	w.write("d/b", "x")
	w.write("d/.git/c", "y")
	w.take()
	f.Add(w.packs[w.keys[0]])
	g := &forge{}
	g.commit(g.tree(entry{modeFile, "..", g.add(kindBlob, []byte("x"))}))
	f.Add(g.pack())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= sha1.Size { // a fuzzer finds no checksum
			b = seal(b[:len(b)-sha1.Size])
		}
		r, err := loadForged(t, b)
		if err != nil {
			return
		}
		for id, p := range r.objects {
			if p.kind != kindCommit {
				continue
			}
			if list, _, err := r.List(t.Context(), id.String(), "."); err == nil {
				for _, e := range list {
					if !validName(e.Name) {
						t.Errorf("the name %q", e.Name)
					}
					_, _, _ = r.Read(t.Context(), id.String(), e.Name, 0, 1<<20)
				}
			}
			_, _ = r.Diff(t.Context(), "", id.String(), "")
		}
	})
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\n", "a\nc")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		e := compare(lines([]byte(a)), lines([]byte(b)))
		var was, is strings.Builder
		for _, x := range e {
			if x.op != '+' {
				was.WriteString(x.text)
			}
			if x.op != '-' {
				is.WriteString(x.text)
			}
		}
		if was.String() != a || is.String() != b {
			t.Errorf("%q to %q", was.String(), is.String())
		}
		if text, _ := e.unified(100); len(text) > 100 {
			t.Errorf("%d bytes", len(text))
		}
	})
}
