package api

import (
	"archive/zip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

const maxManifest = 20_000 // entries in a manifest

// artifact returns the artifact of a job, opened.
func (a *API) artifact(ctx context.Context, j *glovebox.Job) (blob.Reader, error) {
	if j.Artifact == nil {
		e := &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: j.ID, Msg: fmt.Sprintf("the job is %s and has no artifact", j.Status),
			Hint: "wait until it is complete: GET /status/" + j.ID + "?wait=60s"}
		if j.Status.Terminal() {
			e.Hint = "it ended without one: GET /status/" + j.ID + " says why"
		}
		return nil, e
	}
	b, err := a.o.Blobs.Open(ctx, j.Artifact.Blob)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		// It is in the log: that it is not in the blob store is our fault.
		return nil, glovebox.Errorf(glovebox.CodeInternal, "artifact of job %s: %w", j.ID, err)
	}
	if err == nil && b.Size() != j.Artifact.Size { // of less than all of it, a client would get what looks whole
		b.Close()
		return nil, glovebox.Errorf(glovebox.CodeInternal, "artifact of job %s: the blob has %d bytes, %d were written", j.ID, b.Size(), j.Artifact.Size)
	}
	return b, err
}

// download answers with the artifact, or with ranges of it.
func (a *API) download(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	b, err := a.artifact(r.Context(), j)
	if err != nil {
		return err
	}
	defer b.Close()
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="`+artifactName(j)+`"`)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+j.Artifact.SHA256+`"`)
	h.Set("X-Content-SHA256", j.Artifact.SHA256)
	if sum, err := hex.DecodeString(j.Artifact.SHA256); err == nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	var modified time.Time
	if j.FinishedAt != nil {
		modified = *j.FinishedAt
	}
	http.ServeContent(w, r, "", modified, b)
	return nil
}

// output answers with a whole output of a tool, of which the log holds a part.
func (a *API) output(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	handle := r.PathValue("handle")
	key, err := blob.OutputKey(j.ID, handle)
	var b blob.Reader
	if err == nil {
		b, err = a.o.Blobs.Open(r.Context(), key)
	}
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "handle", Value: clip(handle, 90), Msg: "the job has no such output",
			Hint: "handles are the field blob of tool.finished: GET /jobs/" + j.ID + "/events"}
	}
	if err != nil {
		return err
	}
	defer b.Close()
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(b, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if _, err := b.Seek(0, io.SeekStart); err != nil {
		return err
	}
	inert(w.Header(), handle, head[:n])
	w.Header().Set("ETag", `"`+handle+`"`) // what is under a handle never changes
	http.ServeContent(w, r, "", time.Time{}, b)
	return nil
}

// artifactName makes a file name of the task's first words: lower case ASCII
// letters, digits and dashes, whatever the task says.
func artifactName(j *glovebox.Job) string {
	var b strings.Builder
	dash := false
	for _, c := range strings.ToLower(j.Task[:min(len(j.Task), 400)]) {
		if (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(c)
			dash = false
		} else {
			dash = true
		}
		if b.Len() >= 40 {
			break
		}
	}
	if b.Len() == 0 {
		b.WriteString("project")
	}
	return b.String() + "-" + j.ID[len(j.ID)-6:] + ".zip"
}

// manifest says what is in the artifact.
func (a *API) manifest(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	z, err := a.openZip(r.Context(), j)
	if err != nil {
		return err
	}
	defer z.Close()
	m := glovebox.Manifest{
		ArtifactView: glovebox.ArtifactView{SHA256: j.Artifact.SHA256, Size: j.Artifact.Size, Files: j.Artifact.Files},
		DownloadURL:  "/jobs/" + j.ID + "/artifact.zip", Entries: []glovebox.ArtifactFile{}, Skipped: j.Artifact.Skipped,
	}
	if m.Skipped == nil {
		m.Skipped = []glovebox.SkippedPath{}
	}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if len(m.Entries) == maxManifest {
			m.More = true
			break
		}
		m.Entries = append(m.Entries, glovebox.ArtifactFile{
			Path: f.Name, Size: int64(f.UncompressedSize64), Compressed: int64(f.CompressedSize64), CRC32: f.CRC32,
			Executable: f.Mode()&0o111 != 0, ModTime: f.Modified.UTC(),
		})
	}
	return writeJSON(w, http.StatusOK, m)
}

// zipFile is an artifact opened as a zip.
type zipFile struct {
	*zip.Reader
	io.Closer
}

func (a *API) openZip(ctx context.Context, j *glovebox.Job) (*zipFile, error) {
	b, err := a.artifact(ctx, j)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(&readerAt{r: b}, b.Size())
	if err != nil {
		b.Close()
		return nil, glovebox.Errorf(glovebox.CodeInternal, "artifact of job %s: %w", j.ID, err)
	}
	return &zipFile{z, b}, nil
}

// readerAt makes an io.ReaderAt of what can seek.
type readerAt struct {
	mu sync.Mutex
	r  io.ReadSeeker
}

// ReadAt reads at off. Calls go one after another.
func (r *readerAt) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.r.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r.r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// byteCount returns n in the largest unit that divides it.
func byteCount(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
