package api

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

// said makes a signal of what a user says to a job. Of a long text the signal
// has the beginning, and the whole is kept as an output of the job: under a
// handle that follows from the text, so that who sends it again, because the
// answer was lost, does not fill the disk.
func (a *API) said(ctx context.Context, j *glovebox.Job, text string) (glovebox.Signal, error) {
	if len(text) <= glovebox.MaxSignalText {
		return glovebox.Signal{Text: text}, nil
	}
	data := []byte(text)
	s := glovebox.Signal{Text: beginning(text), Blob: blob.OutputOf(data), Size: int64(len(data))}
	if j.Status.Terminal() { // it will be refused
		return s, nil
	}
	key, err := blob.OutputKey(j.ID, s.Blob)
	if err == nil {
		_, err = a.o.Blobs.Put(ctx, key, strings.NewReader(text), glovebox.MaxUserText)
	}
	return s, err
}

// beginning returns the first part of a text that is too long for a signal,
// cut between lines if one ends near.
func beginning(text string) string {
	n := glovebox.MaxSignalText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	if i := strings.LastIndexByte(text[:n], '\n'); i > n-1000 {
		n = i
	}
	return text[:n]
}
