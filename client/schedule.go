package client

import (
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// uploadTimeout bounds one try of a submission with an archive.
const uploadTimeout = time.Hour

// Schedule submits a task. It is sent under a key of its own, so that a
// repetition after a broken connection does not make a second job.
func (c *Client) Schedule(ctx context.Context, s glovebox.Submission) (*glovebox.Accepted, error) {
	return c.ScheduleOnce(ctx, s, glovebox.NewID())
}

// ScheduleOnce is Schedule under a key that the caller chooses: calls with the
// same key and submission give the same job.
func (c *Client) ScheduleOnce(ctx context.Context, s glovebox.Submission, key string) (*glovebox.Accepted, error) {
	body, err := jsonBody(s)
	if err != nil {
		return nil, err
	}
	a := new(glovebox.Accepted)
	_, err = c.do(ctx, callTimeout, call{method: http.MethodPost, path: "/schedule", contentType: "application/json", body: body,
		header: map[string]string{"Idempotency-Key": key}, repeat: true}, a)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// ScheduleArchive submits a task that starts from a zip or tar.gz. The
// archive is streamed; the call is repeated only if it can seek back.
func (c *Client) ScheduleArchive(ctx context.Context, s glovebox.Submission, archive io.Reader) (*glovebox.Accepted, error) {
	options, err := json.Marshal(s)
	if err != nil {
		return nil, glovebox.Invalid("options", "", "%v", err)
	}
	seeker, canSeek := archive.(io.Seeker)
	var start int64
	if canSeek {
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			canSeek = false
		}
	}
	boundary := multipart.NewWriter(io.Discard).Boundary()
	var last *archiveBody
	body := func() io.Reader {
		var rewind error
		if last != nil { // the try before may still be reading
			last.stop()
			_, rewind = seeker.Seek(start, io.SeekStart)
		}
		last = newArchiveBody(boundary, options, archive, rewind)
		return last
	}
	defer func() {
		if last != nil {
			last.stop()
		}
	}()
	a := new(glovebox.Accepted)
	_, err = c.do(ctx, uploadTimeout, call{method: http.MethodPost, path: "/schedule", contentType: "multipart/form-data; boundary=" + boundary,
		body: body, header: map[string]string{"Idempotency-Key": glovebox.NewID()}, repeat: canSeek}, a)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// archiveBody is a multipart body that is made as it is read.
type archiveBody struct {
	*io.PipeReader
	done chan struct{}
}

func newArchiveBody(boundary string, options []byte, archive io.Reader, failed error) *archiveBody {
	pr, pw := io.Pipe()
	b := &archiveBody{pr, make(chan struct{})}
	go func() {
		defer close(b.done)
		if failed == nil {
			failed = writeParts(pw, boundary, options, archive)
		}
		_ = pw.CloseWithError(failed) // never fails
	}()
	return b
}

// stop ends the making of the body and returns when nothing reads the
// archive any more.
func (b *archiveBody) stop() {
	b.Close()
	<-b.done
}

func writeParts(w io.Writer, boundary string, options []byte, archive io.Reader) error {
	m := multipart.NewWriter(w)
	if err := m.SetBoundary(boundary); err != nil {
		return err
	}
	p, err := m.CreateFormField("options")
	if err != nil {
		return err
	}
	if _, err := p.Write(options); err != nil {
		return err
	}
	if p, err = m.CreateFormFile("archive", "archive"); err != nil {
		return err
	}
	if _, err := io.Copy(p, archive); err != nil {
		return err
	}
	return m.Close()
}
