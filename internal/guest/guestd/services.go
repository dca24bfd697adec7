//go:build linux

package guestd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"os"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/service"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// runDir is where services listen. The tools' user may make files there and
// remove its own, but not the daemon's socket.
const runDir = "/run/glovebox"

// supervisor returns what keeps the services, once made from the image's list.
// Without a list there are none.
func (s *Server) supervisor() (*service.Supervisor, error) {
	s.servicesMu.Lock()
	defer s.servicesMu.Unlock()
	if s.services != nil {
		return s.services, nil
	}
	if s.ctx.Err() != nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "the guest is shutting down")
	}
	defs, err := s.readServices()
	if err != nil {
		return nil, err
	}
	dir := s.real(runDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if s.o.UID != 0 && isRoot {
		if err := errors.Join(os.Chown(dir, 0, s.o.UID), os.Chmod(dir, 0o770|fs.ModeSticky)); err != nil {
			return nil, err
		}
	}
	if err := s.ownDir(dir + secretsDir); err != nil {
		return nil, s.hide(err)
	}
	s.services = service.New(defs, service.Host{Spawn: s.spawnService, Forget: s.procs.Forget, Path: s.real, WriteSecret: s.writeSecret})
	if len(s.secret) == 0 { // nothing is open to all before the machine is bound
		s.secret = make([]byte, 32)
		_, _ = rand.Read(s.secret)
		if err := s.services.WriteSecrets(s.serviceSecret); err != nil {
			s.services.Close()
			s.services, s.secret = nil, nil
			return nil, s.hide(err)
		}
	}
	return s.services, nil
}

// secretsDir holds the secrets of services, below runDir. The image may bring
// one that is not the tools' user's.
const secretsDir = "/secrets"

// ownDir makes a directory of the tools' user alone.
func (s *Server) ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.o.UID == 0 || !isRoot {
		return nil
	}
	return errors.Join(os.Chown(dir, s.o.UID, s.o.UID), os.Chmod(dir, 0o700))
}

func (s *Server) readServices() ([]service.Definition, error) {
	f, err := os.Open(s.real(service.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.hide(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, service.MaxList+1))
	if err != nil {
		return nil, s.hide(err)
	}
	return service.Parse(b)
}

// serviceSecret is asked with s.servicesMu held.
func (s *Server) serviceSecret(name string) string { return guest.DeriveSecret(s.secret, name) }

// knows reports whether secret is what the machine is bound with.
func (s *Server) knows(secret []byte) bool {
	s.servicesMu.Lock()
	defer s.servicesMu.Unlock()
	return len(secret) > 0 && subtle.ConstantTimeCompare(secret, s.secret) == 1
}

// bindSecret replaces the secrets of the services.
func (s *Server) bindSecret(secret []byte) error {
	if len(secret) == 0 {
		return nil
	}
	if len(secret) < 16 || len(secret) > 64 {
		return glovebox.Invalid("secret", "use 32 random bytes", "it has %d bytes", len(secret))
	}
	v, err := s.supervisor()
	if err != nil {
		return err
	}
	s.servicesMu.Lock()
	defer s.servicesMu.Unlock()
	old := s.secret
	s.secret = bytes.Clone(secret)
	if err := v.WriteSecrets(s.serviceSecret); err != nil {
		s.secret = old
		return s.hide(err)
	}
	return nil
}

// writeSecret replaces a file of the tools' user, who alone may read it.
func (s *Server) writeSecret(name string, b []byte) error {
	full := s.real(name)
	return s.asUser(func() error { return replaceFile(full, b, 0o600) })
}

// serviceOutput is how much of a service's output is kept for its log to
// read; the log itself is the supervisor's.
const serviceOutput = 32 << 10

func (s *Server) spawnService(id string, d *service.Definition) (*proc.Process, error) {
	p, err := s.procs.Start(proc.Command{
		ID: internalPrefix + id, Args: d.Command, Dir: s.real(guest.Home), Env: s.environ(d.Env, false), Cred: s.credential(false),
		NoStdin: true, OutputLimit: serviceOutput,
	})
	return p, s.hide(err)
}

// closeServices stops keeping services, before their processes are ended.
func (s *Server) closeServices() {
	s.servicesMu.Lock()
	v := s.services
	s.servicesMu.Unlock()
	if v != nil {
		v.Close()
	}
}

// service joins a stream to where a service answers.
func (ses *session) service(conn *wire.Conn, name string) {
	defer conn.Close()
	w := wire.NewFrameWriter(conn, wire.Header{})
	v, err := ses.s.supervisor()
	if err != nil {
		_ = w.Fail(err)
		return
	}
	inside, err := v.Dial(ses.s.ctx, name)
	if err != nil {
		_ = w.Fail(ses.s.hide(err))
		return
	}
	stop := context.AfterFunc(ses.s.ctx, func() { inside.Close() })
	defer stop()
	if w.End() != nil {
		inside.Close()
		return
	}
	wire.Join(inside, conn)
}

// servicesHandler answers the calls about services.
type servicesHandler struct{ s *Server }

var _ guestpb.ServicesHandler = (*servicesHandler)(nil)

func (h *servicesHandler) StartServices(ctx context.Context, r *connect.Request[guestpb.StartServicesRequest]) (*connect.Response[guestpb.ServiceList], error) {
	v, err := h.s.supervisor()
	if err != nil {
		return nil, err
	}
	if err := v.Start(ctx, r.Msg.Names...); err != nil {
		return nil, err
	}
	return connect.NewResponse(serviceList(v)), nil
}

func (h *servicesHandler) ListServices(context.Context, *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.ServiceList], error) {
	v, err := h.s.supervisor()
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(serviceList(v)), nil
}

func (h *servicesHandler) RestartService(ctx context.Context, r *connect.Request[guestpb.ServiceRef]) (*connect.Response[guestpb.Empty], error) {
	v, err := h.s.supervisor()
	if err != nil {
		return nil, err
	}
	return empty(v.Restart(ctx, r.Msg.Name))
}

func (h *servicesHandler) ServiceLog(_ context.Context, r *connect.Request[guestpb.ServiceLogRequest]) (*connect.Response[guestpb.ServiceLogReply], error) {
	v, err := h.s.supervisor()
	if err != nil {
		return nil, err
	}
	text, err := v.Log(r.Msg.Name, int(min(max(r.Msg.Limit, 0), maxCall/2)))
	if err != nil {
		return nil, err
	}
	h.s.servicesMu.Lock()
	secret := h.s.serviceSecret(r.Msg.Name)
	h.s.servicesMu.Unlock()
	if secret != "" {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[secret]"))
	}
	return connect.NewResponse(&guestpb.ServiceLogReply{Text: text}), nil
}

func serviceList(v *service.Supervisor) *guestpb.ServiceList {
	list := &guestpb.ServiceList{}
	for _, st := range v.States() {
		list.Services = append(list.Services, &guestpb.ServiceState{
			Name: st.Name, Running: st.Running, Healthy: st.Healthy, Restarts: int64(st.Restarts), Since: st.Since.UnixNano(), LastExit: st.LastExit,
		})
	}
	return list
}
