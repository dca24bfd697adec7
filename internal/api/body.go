package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// kind is what a body is.
type kind int

const (
	kindText kind = iota
	kindForm      // application/x-www-form-urlencoded: what curl --data says of everything
	kindJSON
	kindMultipart
)

// bodyKind returns what the body is by its headers. Without a type it is text.
func bodyKind(r *http.Request) (kind, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return 0, withStatus(http.StatusUnsupportedMediaType, glovebox.Invalid("Content-Encoding", "send the body as it is", "%q is not accepted", clip(enc, 40)).WithValue(enc))
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		return kindText, nil
	}
	const hint = "use text/plain, application/json or multipart/form-data"
	mt, params, err := mime.ParseMediaType(header)
	if err != nil {
		return 0, unsupported(r, hint)
	}
	if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") && !strings.EqualFold(cs, "us-ascii") {
		return 0, unsupported(r, "send UTF-8")
	}
	switch mt {
	case "text/plain":
		return kindText, nil
	case "application/x-www-form-urlencoded":
		return kindForm, nil
	case "application/json":
		return kindJSON, nil
	case "multipart/form-data":
		return kindMultipart, nil
	}
	return 0, unsupported(r, hint)
}

func unsupported(r *http.Request, hint string) error {
	ct := r.Header.Get("Content-Type")
	return withStatus(http.StatusUnsupportedMediaType, glovebox.Invalid("Content-Type", hint, "%q is not accepted here", clip(ct, 80)).WithValue(ct))
}

// readBody reads a body of at most limit bytes within the server's time for
// bodies.
func (a *API) readBody(w *response, r *http.Request, limit int64, field, hint string) ([]byte, error) {
	tooLarge := &glovebox.Error{Code: glovebox.CodeTooLarge, Field: field, Msg: fmt.Sprintf("the body is larger than %d bytes", limit), Hint: hint}
	if r.ContentLength > limit {
		tooLarge.Msg = fmt.Sprintf("the body has %d bytes; the bound is %d", r.ContentLength, limit)
		readAway(r)
		return nil, tooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		// Room for what was announced, but not before some of it is there.
		buf.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, bodyError(err)
	}
	if n > limit {
		readAway(r)
		return nil, tooLarge
	}
	setReadDeadline(w.rc, time.Time{}) // it was for the body alone
	return buf.Bytes(), nil
}

// maxAway bounds what is read of a body only to be thrown away, in bytes.
const maxAway = 16 << 20

// readAway reads what comes of a body that is refused, within the server's
// time for bodies: a connection that is closed while more comes is reset, and
// who still writes then may never see the answer. Who asks before it sends
// gets the answer instead.
func readAway(r *http.Request) {
	if r.ContentLength <= maxAway && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxAway) // what fails here fails again when the connection is used
	}
}

// bodyError is what is wrong with a body that could not be read to its end.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*glovebox.Error](err); ok {
		return err
	}
	return glovebox.Invalid("body", "send it again", "the body ended early or is malformed: %v", err)
}

// setReadDeadline sets the deadline of the connection. Recorders in tests
// have none, and a connection that fails here fails at the next read.
func setReadDeadline(rc *http.ResponseController, t time.Time) { _ = rc.SetReadDeadline(t) }

// leastRate is how many bytes a second an archive must make on average, after
// a grace of the server's time for bodies.
const leastRate = 16 << 10

// pacedBody moves the read deadline along with what has arrived, so that a
// large upload over a slow line works and one that trickles does not.
type pacedBody struct {
	io.ReadCloser
	rc    *http.ResponseController
	until time.Time // for the next byte
	set   time.Time
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.until.Sub(b.set) > time.Second {
		b.set = b.until
		setReadDeadline(b.rc, b.until)
	}
	n, err := b.ReadCloser.Read(p)
	b.until = b.until.Add(time.Duration(n) * time.Second / leastRate)
	return n, err
}

// isObjectWith reports whether body is a JSON object with one of the names.
func isObjectWith(body []byte, names ...string) bool {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return false
	}
	for _, n := range names {
		if _, ok := m[n]; ok {
			return true
		}
	}
	return false
}
