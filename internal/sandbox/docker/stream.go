//go:build linux

package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Dial implements [sandbox.Driver]. The stream is the standard input and
// output of a process in the container that joins them to the guest.
func (d *Driver) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	late := time.After(callTimeout)
	for {
		if err := d.thaw(ctx, id); err != nil {
			return nil, err
		}
		conn, err := d.attach(ctx, id)
		switch {
		case err == nil:
			return conn, nil
		case errdefs.IsConflict(err): // it was paused again, or has ended: thaw tells
			select {
			case <-time.After(removing):
			case <-late: // neither, whatever the engine says
				return nil, engineError("dial sandbox", err)
			case <-ctx.Done():
				return nil, engineError("dial sandbox", context.Cause(ctx))
			}
		default:
			if _, gone := d.state(ctx, id); gone != nil {
				return nil, gone
			}
			return nil, engineError("dial sandbox", err)
		}
	}
}

// thaw lets a paused sandbox go on.
func (d *Driver) thaw(ctx context.Context, id sandbox.ID) error {
	return d.become(ctx, id, "thaw sandbox", false, func(ctx context.Context) error {
		_, err := d.engine.ContainerUnpause(ctx, d.name(id), client.ContainerUnpauseOptions{})
		return err
	})
}

func (d *Driver) attach(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	made, err := d.engine.ExecCreate(ctx, d.name(id), client.ExecCreateOptions{User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{guestPath, "guest", "connect"}})
	if err != nil {
		return nil, err
	}
	attached, err := d.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	return &stream{Conn: attached.Conn, attached: attached.HijackedResponse, demux: demux{r: attached.Reader}}, nil
}

// stream is an attached exec as a connection.
type stream struct {
	net.Conn
	attached client.HijackedResponse
	demux    demux
}

// Read implements net.Conn.
func (s *stream) Read(p []byte) (int, error) { return s.demux.Read(p) }

// CloseWrite tells the guest that nothing more comes.
func (s *stream) CloseWrite() error { return s.attached.CloseWrite() }

// maxComplaint is how much of standard error is kept.
const maxComplaint = 512

// demux reads standard output out of what an engine sends: frames with a
// header of 8 bytes, of which the first says which stream it is (1 output,
// 2 error, 3 the engine itself) and the last four, big endian, how long it is.
type demux struct {
	r         io.Reader
	left      uint32 // of the frame of standard output that is being read
	complaint []byte // the beginning of standard error
}

// Read implements io.Reader. If the connector complained, the end of the
// stream is an error that says so.
func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(d.r, head[:]); err != nil {
			if errors.Is(err, io.EOF) && len(d.complaint) > 0 {
				return 0, fmt.Errorf("the sandbox's end of the stream: %q", d.complaint)
			}
			return 0, err
		}
		size := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case 1:
			d.left = size
		case 2, 3:
			if err := d.complain(int64(size)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine sent a frame of type %d", head[0])
		}
	}
	n, err := d.r.Read(p[:min(len(p), int(d.left))])
	d.left -= uint32(n)
	if err == io.EOF && d.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// complain keeps the beginning of n bytes and drops the rest.
func (d *demux) complain(n int64) error {
	keep := make([]byte, min(n, int64(maxComplaint-len(d.complaint))))
	if _, err := io.ReadFull(d.r, keep); err != nil {
		return err
	}
	d.complaint = append(d.complaint, keep...)
	_, err := io.CopyN(io.Discard, d.r, n-int64(len(keep)))
	return err
}
