package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	maxPath   = 4096    // bytes of a path
	readChunk = 1 << 20 // bytes asked of a guest at once
	sniffLen  = 512
)

// files answers with a file of a job's project, or with the list of a
// directory: from its sandbox while it runs, from its artifact afterwards.
func (a *API) files(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	name, err := cleanPath(r.PathValue("path"))
	if err != nil {
		return err
	}
	if r.URL.Query().Has(stepParam.name) {
		return a.historyFile(w, r, j, name)
	}
	if !j.Status.Terminal() && a.o.Guest != nil {
		if g, ok := a.o.Guest(j.ID); ok {
			return a.guestFile(w, r, g, name)
		}
	}
	if j.Artifact == nil && j.Status == glovebox.StatusRunning {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Value: j.ID, Msg: "the job's sandbox can't be reached from this server now", Hint: "try again in a moment"}
	}
	z, err := a.openZip(r.Context(), j)
	if err != nil {
		return err
	}
	defer z.Close()
	return a.zipEntry(w, r, z, name)
}

// cleanPath returns a path in a project, "." for the whole, or why it is none.
func cleanPath(name string) (string, error) {
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		name = "."
	}
	if len(name) > maxPath || !fs.ValidPath(name) || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\\") {
		return "", &glovebox.Error{Code: glovebox.CodeNotFound, Field: "path", Value: clip(name, 90), Msg: "this is not a path in a project", Hint: "give a path relative to the workspace, without . and .."}
	}
	return name, nil
}

func noFile(name string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "path", Value: name, Msg: "there is no file " + strconv.Quote(clip(name, 200)), Hint: "list the directory: the same address, ending with a slash"}
}

func (a *API) zipEntry(w *response, r *http.Request, z *zipFile, name string) error {
	list := glovebox.DirList{Path: name, Entries: []glovebox.DirEntry{}}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	seen := map[string]bool{}
	for _, f := range z.File {
		if f.Name == name {
			body, err := f.Open()
			if err != nil {
				return glovebox.Errorf(glovebox.CodeInternal, "open %q in the artifact: %w", name, err)
			}
			defer body.Close()
			return sendFile(w, r, name, int64(f.UncompressedSize64), body)
		}
		rest, ok := strings.CutPrefix(f.Name, prefix)
		if !ok || rest == "" {
			continue
		}
		first, below, deeper := strings.Cut(rest, "/")
		if seen[first] || first == "" {
			continue
		}
		seen[first] = true
		if len(list.Entries) == maxDirEntries {
			list.More = true
			break
		}
		e := glovebox.DirEntry{Name: first, Type: "dir"}
		if !deeper && below == "" {
			t := f.Modified.UTC()
			e.Type, e.Size, e.ModTime = "file", int64(f.UncompressedSize64), &t
		}
		list.Entries = append(list.Entries, e)
	}
	if len(seen) == 0 && name != "." {
		return noFile(name)
	}
	return writeDir(w, list)
}

func writeDir(w *response, list glovebox.DirList) error {
	slices.SortFunc(list.Entries, func(x, y glovebox.DirEntry) int { return strings.Compare(x.Name, y.Name) })
	return writeJSON(w, http.StatusOK, list)
}

func (a *API) guestFile(w *response, r *http.Request, g Files, name string) error {
	full := path.Join(guest.Workspace, name)
	st, err := g.Stat(r.Context(), full)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return noFile(name)
	}
	if err != nil {
		return err
	}
	if st.Mode.IsDir() {
		entries, more, err := g.ReadDir(r.Context(), full)
		if err != nil {
			return err
		}
		list := glovebox.DirList{Path: name, Entries: make([]glovebox.DirEntry, 0, min(len(entries), maxDirEntries)), More: more || len(entries) > maxDirEntries}
		for _, e := range entries[:min(len(entries), maxDirEntries)] {
			list.Entries = append(list.Entries, dirEntry(e, path.Base(e.Path)))
		}
		return writeDir(w, list)
	}
	if !st.Mode.IsRegular() {
		return &glovebox.Error{Code: glovebox.CodeConflict, Field: "path", Value: name, Msg: "it is neither a regular file nor a directory", Hint: "symbolic links are listed, not followed"}
	}
	gr := &guestReader{ctx: r.Context(), g: g, path: full}
	if err := gr.fill(); err != nil {
		return err
	}
	return sendFile(w, r, name, gr.size, gr)
}

// guestReader reads a file of a guest piece by piece. The file may change
// meanwhile; what is read is what was there at each moment, and never more
// than the size that it had at first.
type guestReader struct {
	ctx  context.Context
	g    Files
	path string
	off  int64
	size int64
	buf  []byte
}

func (g *guestReader) fill() error {
	data, size, err := g.g.ReadFile(g.ctx, g.path, g.off, readChunk)
	if err != nil {
		return err
	}
	if len(data) > readChunk || size < 0 {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the sandbox gave a malformed answer")
	}
	if g.off == 0 {
		g.size = size
	}
	g.buf, g.off = data, g.off+int64(len(data))
	return nil
}

// Read is for io.Reader.
func (g *guestReader) Read(p []byte) (int, error) {
	if len(g.buf) == 0 && g.off < g.size {
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	if len(g.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, g.buf)
	g.buf = g.buf[n:]
	return n, nil
}

// inert makes an answer of what came out of a sandbox, beginning with head,
// such that no browser runs it in our origin, whatever it is: it is a
// download, its type is never HTML or script, and the policy forbids
// everything.
func inert(h http.Header, filename string, head []byte) {
	h.Set("Content-Type", inertType(head))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": filename}))
	h.Set("Cache-Control", "private, no-cache")
}

// sendFile answers with a file that came out of a sandbox.
func sendFile(w *response, r *http.Request, name string, size int64, body io.Reader) error {
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	head = head[:n]
	h := w.Header()
	inert(h, path.Base(name), head)
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	sent, err := io.Copy(w, io.LimitReader(io.MultiReader(bytes.NewReader(head), body), size))
	if err == nil && sent != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// inertType returns the type of a file by its first bytes: plain text, one of
// the image types that hold no script, or bytes.
func inertType(head []byte) string {
	switch ct := http.DetectContentType(head); ct {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return ct
	}
	if bytes.IndexByte(head, 0) < 0 && validPrefix(head) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// validPrefix reports whether b is UTF-8, but for a last character that may
// be cut.
func validPrefix(b []byte) bool {
	for cut := 0; cut < utf8.UTFMax && cut <= len(b); cut++ {
		if utf8.Valid(b[:len(b)-cut]) {
			return cut == 0 || len(b) == sniffLen
		}
	}
	return false
}
