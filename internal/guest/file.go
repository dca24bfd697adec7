package guest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of files.
const (
	maxRead  = 16 << 20
	maxWrite = 64 << 20
)

func entryOf(m *guestpb.Entry) Entry {
	return Entry{Path: m.GetPath(), Mode: fs.FileMode(m.GetMode()), Size: m.GetSize(), ModTime: time.Unix(0, m.GetModTime()), Link: m.GetLink()}
}

func entriesOf(m *guestpb.EntryList) []Entry {
	list := make([]Entry, 0, len(m.GetEntries()))
	for _, e := range m.GetEntries() {
		list = append(list, entryOf(e))
	}
	return list
}

// exchange opens a stream and sends a message on it.
func (c *Client) exchange(ctx context.Context, op, kind string, m proto.Message, timed bool) (*framed, error) {
	f, err := c.stream(ctx, op, wire.Header{Kind: kind}, timed)
	if err != nil {
		return nil, err
	}
	if err = f.w.WriteMessage(m); err == nil {
		err = f.w.Flush()
	}
	if err != nil {
		defer f.close()
		return nil, f.fail(err)
	}
	return f, nil
}

// Stat describes a file, not following a symbolic link. CodeNotFound if
// there is none. Paths are absolute or relative to Workspace, here and below;
// all file calls act as UID.
func (c *Client) Stat(ctx context.Context, path string) (Entry, error) {
	m, err := call(ctx, c, "stat", c.rpc.Stat, &guestpb.PathRequest{Path: path})
	if err != nil {
		return Entry{}, err
	}
	return entryOf(m), nil
}

// ReadDir lists a directory, sorted by name; at most 10,000 entries, and
// whether there are more.
func (c *Client) ReadDir(ctx context.Context, path string) (entries []Entry, more bool, err error) {
	m, err := call(ctx, c, "list a directory", c.rpc.ReadDir, &guestpb.PathRequest{Path: path})
	if err != nil {
		return nil, false, err
	}
	return entriesOf(m), m.More, nil
}

// ReadFile returns up to limit bytes of a regular file from offset on
// (limit at most 16 MiB), and its whole size.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error) {
	if offset < 0 || limit < 0 || limit > maxRead {
		return nil, 0, glovebox.Invalid("limit", fmt.Sprintf("read at most %d bytes at a time", maxRead), "offset %d and limit %d are out of range", offset, limit)
	}
	const op = "read a file"
	q := &guestpb.GetRequest{Path: path, Offset: offset, Limit: min(limit, pipelined)}
	request, err := wire.AppendMessage(nil, wire.FrameMessage, q)
	if err != nil {
		return nil, 0, err
	}
	f := &framed{op: op}
	c.bound(f, ctx, true)
	defer f.unbound()
	type content struct {
		data []byte
		size int64
	}
	got := make(chan content, 1) // ctx may end while it is read
	err = c.pipeDo(f.ctx, wire.KindGet, request, func(r *wire.FrameReader) error {
		data, size, err := readContent(r, q)
		got <- content{data, size}
		return err
	})
	if err != nil {
		return nil, 0, f.fail(err)
	}
	x := <-got
	if limit <= pipelined || int64(len(x.data)) < pipelined {
		return x.data, x.size, nil
	}
	return c.readLarge(ctx, op, &guestpb.GetRequest{Path: path, Offset: offset, Limit: limit})
}

// readLarge reads a file over a stream of its own.
func (c *Client) readLarge(ctx context.Context, op string, q *guestpb.GetRequest) ([]byte, int64, error) {
	f, err := c.exchange(ctx, op, wire.KindGet, q, true)
	if err != nil {
		return nil, 0, err
	}
	defer f.close()
	data, size, err := readContent(f.r, q)
	return data, size, f.fail(err)
}

// readContent reads the answer to a request for a file.
func readContent(r *wire.FrameReader, q *guestpb.GetRequest) (data []byte, size int64, err error) {
	var reply guestpb.GetReply
	if err := r.ReadMessage(&reply); err != nil {
		return nil, 0, err
	}
	body := io.LimitReader(wire.NewDataReader(r), q.Limit+1)
	if want := min(q.Limit, max(0, reply.Size-q.Offset)); want <= 1<<20 {
		data = make([]byte, 0, want+1)
	}
	if data, err = appendAll(data, body); err != nil {
		return nil, 0, err
	}
	if int64(len(data)) > q.Limit {
		return nil, 0, glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent more than the %d bytes that were asked for", q.Limit)
	}
	return data, max(reply.Size, q.Offset*b2i(len(data) > 0)+int64(len(data))), nil
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// appendAll reads r to its end.
func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// WriteFile writes a file whole or not at all, making its parents. mode 0
// keeps that of a file that is there, else 0644. At most 64 MiB.
func (c *Client) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if len(data) > maxWrite {
		return glovebox.Errorf(glovebox.CodeTooLarge, "a file of %d bytes is larger than %d", len(data), maxWrite)
	}
	const op = "write a file"
	q := &guestpb.PutRequest{Path: path, Size: int64(len(data)), Mode: uint32(mode.Perm())}
	if len(data) > pipelined {
		return c.writeLarge(ctx, op, q, data)
	}
	request, err := wire.AppendMessage(make([]byte, 0, len(data)+len(path)+64), wire.FrameMessage, q)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		request = wire.AppendFrame(request, wire.FrameData, data)
	}
	request = wire.AppendFrame(request, wire.FrameEnd, nil)
	f := &framed{op: op}
	c.bound(f, ctx, true)
	defer f.unbound()
	return f.fail(c.pipeDo(f.ctx, wire.KindPut, request, (*wire.FrameReader).ReadEnd))
}

// writeLarge writes a file over a stream of its own.
func (c *Client) writeLarge(ctx context.Context, op string, q *guestpb.PutRequest, data []byte) error {
	f, err := c.exchange(ctx, op, wire.KindPut, q, true)
	if err != nil {
		return err
	}
	defer f.close()
	if err = f.w.WriteData(wire.FrameData, data); err == nil {
		err = f.w.End()
	}
	if err == nil || f.ctx.Err() == nil { // a guest that refuses says why
		if rerr := f.r.ReadEnd(); err == nil || f.r.Refused() {
			err = rerr
		}
	}
	return f.fail(err)
}

// Move renames a file or directory, making the parents of its new path.
// CodeConflict if something is there.
func (c *Client) Move(ctx context.Context, from, to string) error {
	return do(ctx, c, "move", c.rpc.Move, &guestpb.MoveRequest{From: from, To: to})
}

// Remove removes a file, or a directory and all in it. CodeNotFound if there is none.
func (c *Client) Remove(ctx context.Context, path string) error {
	return do(ctx, c, "remove", c.rpc.Remove, &guestpb.PathRequest{Path: path})
}

// MakeDir makes a directory and its parents.
func (c *Client) MakeDir(ctx context.Context, path string) error {
	return do(ctx, c, "make a directory", c.rpc.MakeDir, &guestpb.PathRequest{Path: path})
}

// Glob returns the paths below dir that match a pattern ("**" for any depth),
// relative to dir and sorted; at most limit, .git and what .gitignore names
// left out unless all.
func (c *Client) Glob(ctx context.Context, dir, pattern string, limit int, all bool) ([]Entry, error) {
	m, err := call(ctx, c, "find files", c.rpc.Glob, &guestpb.GlobRequest{Dir: dir, Pattern: pattern, Limit: int32(min(max(limit, 0), 1<<30)), All: all})
	if err != nil {
		return nil, err
	}
	return entriesOf(m), nil
}

// Search finds lines with ripgrep; more is true if there were more than Limit.
// Paths are relative to Dir, or the name of the file if Dir is one.
func (c *Client) Search(ctx context.Context, q SearchQuery) (matches []Match, more bool, err error) {
	m, err := call(ctx, c, "search", c.rpc.Search, &guestpb.SearchRequest{
		Pattern: q.Pattern, Fixed: q.Fixed, IgnoreCase: q.IgnoreCase, Dir: q.Dir, Glob: q.Glob,
		Context: int32(min(max(q.Context, 0), 10)), Limit: int32(min(max(q.Limit, 0), 1000)),
	})
	if err != nil {
		return nil, false, err
	}
	for _, x := range m.Matches {
		matches = append(matches, Match{Path: x.Path, Line: int(x.Line), Text: x.Text, Context: x.Context})
	}
	return matches, m.More, nil
}

// Watch calls f with the paths below dir that changed, relative to it, in
// batches, until ctx ends. Too many at once: f gets "." alone. The first
// call, with no path, says that changes are seen from now on. Directories
// that tools fill (.git, node_modules, ...) are not watched.
func (c *Client) Watch(ctx context.Context, dir string, f func(paths []string)) error {
	s, err := c.exchange(ctx, "watch", wire.KindWatch, &guestpb.WatchRequest{Dir: dir}, false)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		var b guestpb.WatchBatch
		if err := s.r.ReadMessage(&b); err != nil {
			return s.fail(err)
		}
		f(b.Paths)
	}
}
