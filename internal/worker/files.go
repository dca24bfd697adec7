package worker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// cloneTimeout bounds how long fetching the repository that a job starts from
// may take.
const cloneTimeout = 10 * time.Minute

// filesError is why the files that a job starts from could not be had.
type filesError struct{ glovebox.Failure }

func (e *filesError) Error() string { return e.Message }

func badFiles(hint, format string, args ...any) error {
	return &filesError{glovebox.Failure{Code: "files", Message: glovebox.Errorf("", format, args...).Error(), Hint: hint}}
}

// importFiles brings what the job starts from into the workspace.
func (b *box) importFiles(ctx context.Context, c *guest.Client, job *glovebox.Job) error {
	switch {
	case job.Files == nil:
		return nil
	case job.Files.Blob != "":
		return b.importArchive(ctx, c, job.Files.Blob)
	case job.Files.GitURL != "":
		return cloneRepository(ctx, c, *job.Files)
	}
	return nil
}

func (b *box) importArchive(ctx context.Context, c *guest.Client, key string) error {
	r, err := b.h.r.o.Blobs.Open(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(r, head)
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	format := archiveFormat(head[:n])
	if format == "" {
		return badFiles("send a .zip or .tar.gz", "the archive is neither a zip nor a tar.gz")
	}
	if err := c.Import(ctx, guest.Workspace, r, format); err != nil {
		switch glovebox.CodeOf(err) {
		case glovebox.CodeInvalid, glovebox.CodeTooLarge:
			return badFiles("check the archive", "the archive can't be unpacked: %s", plain(err))
		}
		return err
	}
	return nil
}

// archiveFormat tells from the first bytes of an archive what it is; "" if it
// is nothing that can be unpacked.
func archiveFormat(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")): // the latter is empty
		return "zip"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "tar.gz"
	}
	return ""
}

// cloneRepository runs git in the sandbox, under the job's own egress policy.
// The host opens nothing of what comes.
func cloneRepository(ctx context.Context, c *guest.Client, f glovebox.Files) error {
	if strings.HasPrefix(f.GitURL, "-") || strings.HasPrefix(f.GitRef, "-") {
		return badFiles("give a URL and the name of a branch, tag or commit", "%.100q is an option and not a name", f.GitURL+" "+f.GitRef)
	}
	ctx, cancel := context.WithTimeout(ctx, cloneTimeout)
	defer cancel()
	steps := [][]string{{"git", "clone", "--", f.GitURL, "."}}
	if f.GitRef != "" {
		steps = append(steps, []string{"git", "checkout", "--detach", f.GitRef, "--"})
	}
	for _, args := range steps {
		state, out, err := c.Run(ctx, guest.Command{ID: "git-" + glovebox.NewID(), Args: args, Env: map[string]string{"GIT_TERMINAL_PROMPT": "0"}}, 4<<10)
		if err != nil {
			return err
		}
		if state.ExitCode != 0 {
			return badFiles("check the URL and the ref, and that the job's egress policy allows the host",
				"git could not fetch %s: %s", f.GitURL, strings.TrimSpace(strings.ToValidUTF8(string(out), "?")))
		}
	}
	return nil
}
