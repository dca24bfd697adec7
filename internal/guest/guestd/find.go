//go:build linux

package guestd

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of finding.
const (
	maxGlob      = 10_000
	maxScanned   = 500_000 // files looked at by one glob
	maxDepth     = 100     // of directories: the time grows with its square
	maxMatches   = 1000
	maxMatchText = 500
)

// findTime is how long a search takes at most, less than the host waits: a
// tree, or its .gitignore, can be made so that ripgrep takes hours.
const findTime = 20 * time.Second

// within calls f with a context that ends after d. more is true if it
// did and f had found something by then; with nothing found, that is an error.
func within(ctx context.Context, d time.Duration, f func(context.Context) error, found func() bool) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err = f(ctx)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false, err
	}
	if found() {
		return true, nil
	}
	return false, glovebox.Errorf(glovebox.CodeTooLarge, "nothing was found within %v, and not everything was looked at: look in a smaller directory", d)
}

// glob lists what matches below a directory. What .gitignore leaves out is
// found out by ripgrep, whose rules are those of search too.
func (s *Server) glob(ctx context.Context, q *guestpb.GlobRequest) (*guestpb.EntryList, error) {
	dir, err := s.resolveDir(q.Dir)
	if err != nil {
		return nil, err
	}
	if !doublestar.ValidatePattern(q.Pattern) || q.Pattern == "" {
		return nil, glovebox.Invalid("pattern", "for example **/*.go", "%.200q is not a valid pattern", q.Pattern)
	}
	if err := s.asUser(func() error { _, err := os.Stat(dir); return err }); err != nil {
		return nil, s.hide(err)
	}
	limit := int(q.Limit)
	if limit <= 0 || limit > maxGlob {
		limit = maxGlob
	}
	list := s.globIgnoring
	if q.All {
		list = s.globAll
	}
	var names []string
	more, err := within(ctx, findTime, func(ctx context.Context) (err error) {
		names, err = list(ctx, dir, q.Pattern)
		return err
	}, func() bool { return len(names) > 0 })
	if err != nil {
		return nil, s.hide(err)
	}
	slices.Sort(names)
	reply := &guestpb.EntryList{More: more}
	err = s.asUser(func() error {
		for _, n := range names {
			if len(reply.Entries) == limit {
				reply.More = true
				break
			}
			full := filepath.Join(dir, n)
			if info, err := os.Lstat(full); err == nil {
				reply.Entries = append(reply.Entries, entryOf(n, info, filepath.Dir(full)))
			}
		}
		return nil
	})
	return reply, err
}

func (s *Server) globIgnoring(ctx context.Context, dir, pattern string) ([]string, error) {
	var names []string
	scanned := 0
	_, err := s.runInternal(ctx, dir, []string{"rg", "--files", "--hidden", "--max-depth", strconv.Itoa(maxDepth), "--null", "--no-messages", "--no-require-git", "--glob", "!**/.git/**"}, func(b []byte) bool {
		scanned++
		if ok, _ := doublestar.Match(pattern, string(b)); ok {
			names = append(names, string(b))
		}
		return scanned < maxScanned
	})
	return names, rgError(err)
}

func (s *Server) globAll(ctx context.Context, dir, pattern string) ([]string, error) {
	var names []string
	scanned := 0
	err := s.asUser(func() error {
		return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				if p == dir {
					return err
				}
				return nil // unreadable, or gone meanwhile
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if scanned++; scanned > maxScanned {
				return fs.SkipAll
			}
			rel, err := filepath.Rel(dir, p)
			if err == nil && d.IsDir() && strings.Count(rel, "/") >= maxDepth-1 {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() {
				return err
			}
			if ok, _ := doublestar.Match(pattern, rel); ok {
				names = append(names, rel)
			}
			return nil
		})
	})
	return names, err
}

func rgError(err error) error {
	if wire.CodeOf(err) == glovebox.CodeNotFound {
		return glovebox.Errorf(glovebox.CodeUnavailable, "ripgrep (rg) is not in the sandbox: %w", err)
	}
	return err
}

// search runs ripgrep and reads its JSON.
func (s *Server) search(ctx context.Context, q *guestpb.SearchRequest) (*guestpb.SearchReply, error) {
	dir, err := s.resolveDir(q.Dir)
	if err != nil {
		return nil, err
	}
	if q.Pattern == "" || len(q.Pattern) > 10_000 {
		return nil, glovebox.Invalid("pattern", "give 1 to 10000 bytes", "a pattern of %d bytes can't be searched for", len(q.Pattern))
	}
	limit := int(q.Limit)
	if limit <= 0 {
		limit = 200
	}
	limit = min(limit, maxMatches)
	where := "."
	err = s.asUser(func() error {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			dir, where = filepath.Dir(dir), filepath.Base(dir)
		}
		return err
	})
	if err != nil {
		return nil, s.hide(err)
	}
	args := []string{"rg", "--json", "--hidden", "--max-depth", strconv.Itoa(maxDepth), "--no-require-git", "--no-config", "--sort", "path", "--glob", "!**/.git/**", "--context", strconv.Itoa(int(min(max(q.Context, 0), 10)))}
	if q.Fixed {
		args = append(args, "--fixed-strings")
	}
	if q.IgnoreCase {
		args = append(args, "--ignore-case")
	}
	if q.Glob != "" {
		args = append(args, "--glob", q.Glob)
	}
	args = append(args, "--regexp", q.Pattern, "--", where)
	reply := &guestpb.SearchReply{}
	found := 0
	var st proc.State
	ran := false
	line := func(b []byte) bool {
		ran = true // at least the summary; of a bad pattern there is nothing
		m, ok := parseMatch(b)
		if !ok {
			return true
		}
		if !m.Context {
			if found++; found > limit {
				reply.More = true
				return false
			}
		}
		if len(reply.Matches) < limit*21 {
			reply.Matches = append(reply.Matches, m)
		}
		return true
	}
	more, err := within(ctx, findTime, func(ctx context.Context) (err error) {
		st, err = s.runInternal(ctx, dir, args, line)
		return err
	}, func() bool { return len(reply.Matches) > 0 })
	reply.More = reply.More || more
	switch {
	case err != nil:
		return nil, rgError(s.hide(err))
	case st.ExitCode == 2 && !ran: // with ran, a file could not be read
		return nil, glovebox.Invalid("pattern", "escape it or set fixed", "ripgrep does not accept the pattern %.200q or the glob %.200q", q.Pattern, q.Glob)
	}
	return reply, nil
}

// rgText is text of ripgrep, in base 64 where it is not UTF-8.
type rgText struct {
	Text  string `json:"text"`
	Bytes []byte `json:"bytes"`
}

func (t rgText) String() string {
	if t.Bytes != nil {
		return strings.ToValidUTF8(string(t.Bytes), "\uFFFD")
	}
	return t.Text
}

// parseMatch parses one message of ripgrep; ok is false if it is not a line.
func parseMatch(b []byte) (m *guestpb.Match, ok bool) {
	var msg struct {
		Type string `json:"type"`
		Data struct {
			Path  rgText `json:"path"`
			Lines rgText `json:"lines"`
			Line  int64  `json:"line_number"`
		} `json:"data"`
	}
	if json.Unmarshal(b, &msg) != nil || msg.Type != "match" && msg.Type != "context" {
		return nil, false
	}
	text := strings.TrimRight(msg.Data.Lines.String(), "\r\n")
	if len(text) > maxMatchText {
		text = strings.ToValidUTF8(text[:maxMatchText], "")
	}
	return &guestpb.Match{Path: strings.TrimPrefix(msg.Data.Path.String(), "./"), Line: msg.Data.Line, Text: text, Context: msg.Type == "context"}, true
}
