package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
)

// maxShot is how many bytes the screenshot of a proof may have.
const maxShot = 8 << 20

// saveShots leaves the screenshots of a job's proofs beside its zip, as
// NAME-verification-1.png and so on, and returns their paths. What is there
// already is not touched.
func saveShots(ctx context.Context, cl *client.Client, j *glovebox.JobView, archive string) ([]string, error) {
	var saved []string
	n := 0
	for _, p := range j.Verification {
		if p.Screenshot == "" {
			continue
		}
		data, ext, err := shotOf(ctx, cl, j.JobID, p.Screenshot)
		if glovebox.CodeOf(err) == glovebox.CodeNotFound {
			continue
		}
		if err != nil {
			return saved, fmt.Errorf("get the screenshot of %s: %w", plain(p.Page), err)
		}
		for {
			n++
			name := fmt.Sprintf("%s-verification-%d%s", strings.TrimSuffix(archive, ".zip"), n, ext)
			err = writeNew(name, data)
			if errors.Is(err, fs.ErrExist) && n < maxPlaces {
				continue
			}
			if err != nil {
				return saved, err
			}
			saved = append(saved, name)
			break
		}
	}
	return saved, nil
}

// shotOf gets a screenshot and the extension of its name. What is no picture
// is refused: it came out of a sandbox.
func shotOf(ctx context.Context, cl *client.Client, id, handle string) (data []byte, ext string, err error) {
	body, _, err := cl.Output(ctx, id, handle)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	if data, err = io.ReadAll(io.LimitReader(body, maxShot+1)); err != nil {
		return nil, "", err
	}
	ext = map[string]string{"image/png": ".png", "image/jpeg": ".jpg"}[http.DetectContentType(data)]
	if len(data) > maxShot || ext == "" {
		return nil, "", fmt.Errorf("it is not a picture of at most %d bytes", maxShot)
	}
	return data, ext, nil
}

// writeNew writes a file that must not be there yet.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(data))
	return errors.Join(err, f.Close())
}
