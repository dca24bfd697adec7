//go:build linux

package kernel

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// renewScript makes a Python process that was copied one of its own: it draws
// the seeds of everything that keeps a random state anew, and changes the key
// that its messages are signed with, last, so that only the reply is signed
// with the new one.
//
// What can't be changed in a running process stays the same in all copies:
// the secret of str's hash (which orders sets and guards dicts against chosen
// keys), the layout of its memory, and the C library's stack guard. None of
// them is a token, a key or a number that a program draws.
//
//go:embed renew.py
var renewScript string

// How long a kernel may take to renew itself, and a silent cell of ours that
// has the turn before.
const (
	renewTimeout = 30 * time.Second
	turnTimeout  = 10 * time.Second
)

// Renew makes the kernels of a machine that was frozen and restored this
// machine's own, with entropy that no other machine was given. A Python kernel
// gets a new key and new seeds in place, and a new connection file; others,
// whose generators can't be reached (V8's), are ended and start anew with
// their next cell. Kernels that ran a cell already belong to a job and are
// left alone.
//
// It returns at once; a cell that comes meanwhile waits.
func (m *Manager) Renew(entropy []byte) {
	m.mu.Lock()
	all := m.all()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return
	}
	for _, k := range all {
		l, taken := k.takeUnused(m.ctx)
		if l == nil {
			continue
		}
		m.wg.Go(func() {
			if !taken {
				m.kill(l)
				return
			}
			defer k.give()
			if k.language != "python" || m.renew(k.name, l, entropy) != nil {
				m.kill(l)
			}
		})
	}
}

// unused returns the process of a kernel that runs and belongs to no job yet;
// nil of others.
func (k *kernel) unused() *live {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used {
		return nil
	}
	return k.live
}

// takeUnused takes the turn of a kernel that belongs to no job, and returns
// its process; nil of others, whose turn is not taken. A silent cell that has
// the turn is ours, and short: if it does not end, the turn is not taken.
func (k *kernel) takeUnused(ctx context.Context) (l *live, taken bool) {
	if k.unused() == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return k.unused(), false
	}
	if l = k.unused(); l == nil {
		k.give()
	}
	return l, l != nil
}

// renew gives a Python kernel a new key and seeds. The caller has the turn.
func (m *Manager) renew(name string, l *live, entropy []byte) error {
	derive := func(what string) string {
		h := hmac.New(sha256.New, append([]byte(randomHex(32)), entropy...))
		h.Write([]byte("kernel " + name + " " + what))
		return hex.EncodeToString(h.Sum(nil))
	}
	seed, key, session := derive("seed"), derive("key"), derive("session")[:32]
	code := "exec(" + strconv.Quote(renewScript) + `, {"__args__": ("` + seed + `", "` + key + `", "` + session + `")})`
	l.mu.Lock()
	l.nextKey = []byte(key)
	l.mu.Unlock()
	run := newRun(false)
	if err := l.begin(run, Cell{Code: code, Silent: true}); err != nil {
		return err
	}
	t := time.NewTimer(renewTimeout)
	defer t.Stop()
	select {
	case <-run.done:
	case <-l.dead:
	case <-t.C:
	case <-m.ctx.Done():
	}
	run.mu.Lock()
	ok := run.ended && run.result.Status == statusOK
	run.mu.Unlock()
	l.mu.Lock()
	l.run = nil
	if !ok {
		l.mu.Unlock()
		return glovebox.Errorf(glovebox.CodeUnavailable, "kernel %q did not take a new key", name)
	}
	l.me = &identity{key: []byte(key), session: randomHex(16)}
	l.nextKey = nil
	old := l.connection
	l.connection.Key = key
	l.connection.file = filepath.Join(m.o.Dir, "kernel-"+randomHex(6)+".json")
	now := l.connection
	l.mu.Unlock()
	return m.o.AsUser(func() error {
		_ = os.Remove(old.file)
		return now.write()
	})
}
