package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

// readMultipart reads a submission whose parts are:
//
//	task or prompt   the text
//	model            optional
//	project          optional
//	options          optional: a submission in JSON, for everything else
//	archive          optional: a zip or tar.gz to start from
//
// The archive is stored as it arrives, under the job to be, so that it lives
// and goes with the job.
func (a *API) readMultipart(w *response, r *http.Request, id string) (request, error) {
	var req request
	r.Body = &pacedBody{ReadCloser: r.Body, rc: w.rc, until: time.Now().Add(a.o.BodyTimeout)}
	defer setReadDeadline(w.rc, time.Time{})
	parts, err := r.MultipartReader()
	if err != nil {
		return req, withStatus(http.StatusUnsupportedMediaType, glovebox.Invalid("Content-Type", "give the boundary of the parts", "%v", err))
	}
	seen := map[string]bool{}
	for {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return req, nil
		}
		if err != nil {
			return req, bodyError(err)
		}
		name := p.FormName()
		if seen[name] {
			return req, glovebox.Invalid(clip(name, 60), "send it once", "the part is there twice")
		}
		seen[name] = true
		if err := a.readPart(r, p, name, id, &req); err != nil {
			return req, err
		}
	}
}

func (a *API) readPart(r *http.Request, p *multipart.Part, name, id string, req *request) error {
	switch name {
	case "archive":
		return a.storeArchive(r, p, id, req)
	case "options":
		b, err := readPart(p, maxJSONTask)
		if err != nil {
			return err
		}
		before := req.Submission
		if err := decodeStrict(b, &req.Submission); err != nil {
			return err
		}
		if (before.Task != "" && req.Task != before.Task) || (before.Prompt != "" && req.Prompt != before.Prompt) || (before.Model != "" && req.Model != before.Model) || (before.Project != "" && req.Project != before.Project) {
			return glovebox.Invalid("options", "give task, model and project once", "options give again what another part gave")
		}
		return nil
	}
	fields := map[string]*string{"task": &req.Task, "prompt": &req.Prompt, "model": &req.Model, "project": &req.Project}
	field := fields[name]
	if field == nil {
		return glovebox.Invalid("parts."+clip(name, 60), "the parts are: archive, model, options, project, prompt, task", "unknown part %q", clip(name, 60)).WithValue(name)
	}
	b, err := readPart(p, glovebox.MaxTask)
	if err != nil {
		return err
	}
	if *field != "" {
		return glovebox.Invalid(name, "give it once", "the part gives again what options gave")
	}
	*field = string(b)
	return nil
}

func readPart(p *multipart.Part, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(p, limit+1))
	if err != nil {
		return nil, bodyError(err)
	}
	if int64(len(b)) > limit {
		return nil, &glovebox.Error{Code: glovebox.CodeTooLarge, Field: clip(p.FormName(), 60), Msg: "the part is larger than 1 MiB", Hint: "send long material in the archive"}
	}
	return b, nil
}

func (a *API) storeArchive(r *http.Request, p *multipart.Part, id string, req *request) error {
	br := bufio.NewReader(p)
	head, err := br.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return bodyError(err)
	}
	var ext string
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		ext = ".zip"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		ext = ".tar.gz"
	default:
		return glovebox.Invalid("archive", "send a zip or a tar.gz", "the archive begins with % x, which is neither", head)
	}
	key := blob.JobPrefix(id) + "input" + ext
	req.archive = key // also if Put fails: what it may have left is removed
	src := &sourceReader{r: br}
	info, err := a.o.Blobs.Put(r.Context(), key, src, a.o.MaxArchive)
	switch {
	case src.err != nil:
		return bodyError(src.err)
	case glovebox.CodeOf(err) == glovebox.CodeTooLarge:
		return &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "archive", Msg: "the archive is larger than " + byteCount(a.o.MaxArchive), Hint: "leave out what can be fetched or rebuilt, such as node_modules"}
	case err != nil:
		return err
	}
	req.archiveSHA256 = info.SHA256
	return nil
}

// sourceReader remembers whether it was the reading that failed, which is the
// client's matter, or the writing, which is ours.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
