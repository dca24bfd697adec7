package egress

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/glovebox-dev/glovebox"
)

// outside is what an InternalHandler reaches the network through.
type outside struct{ p *Proxy }

// Check asks the policy about a host.
func (o outside) Check(host string, port uint16) Verdict { return o.p.policy.Check(host, port) }

// Record records what needed no network.
func (o outside) Record(e glovebox.EgressAttempted) { o.p.o.Record(e) }

// RoundTrip sends one request where the policy allows it, and records it.
func (o outside) RoundTrip(r *http.Request) (*http.Response, error) {
	def := uint16(80)
	if r.URL.Scheme == "https" {
		def = 443
	}
	at, err := authority(r.URL.Host, def)
	var v Verdict
	if err == nil {
		if v = o.p.policy.check(at.host, at.port); !v.Allowed {
			err = &denial{v.Reason}
			o.p.o.Record(glovebox.EgressAttempted{Host: at.host.String(), Port: int(at.port), Reason: v.Reason, Count: 1})
		}
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	a := o.p.begin(at, v.Reason)
	resp, err := o.p.roundTrip(r, v, at)
	if err != nil {
		d, denied := errors.AsType[*denial](err)
		if denied {
			a.end(false, d.reason)
		} else {
			a.end(true, "failed: "+at.String()+" can't be reached")
		}
		return nil, err
	}
	resp.Body = &recordedBody{ReadCloser: resp.Body, n: &a.down, end: sync.OnceFunc(func() { a.end(true, v.Reason) })}
	return resp, nil
}

// recordedBody counts what is read of an answer and records its end.
type recordedBody struct {
	io.ReadCloser
	n   *atomic.Int64
	end func()
}

// Read reads and counts.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// Close records that the attempt ended.
func (b *recordedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// IsDenied reports whether an error says that the policy refused.
func IsDenied(err error) bool {
	_, ok := errors.AsType[*denial](err)
	return ok
}
