//go:build linux

package guestd

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/snap"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// Where certificates lie. The bundle is Debian's, which everything that uses
// OpenSSL or GnuTLS reads; the variables are for what brings its own.
const (
	caBundle = "/etc/ssl/certs/ca-certificates.crt"
	caExtra  = "/usr/local/share/ca-certificates"
)

var caVariables = []string{
	"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "NODE_EXTRA_CA_CERTS",
}

// bind applies settings. What the sandbox does not allow (setting the clock,
// the host name) is reported when all the rest is done.
func (s *Server) bind(m *guestpb.Settings) error {
	if len(m.Hostname) > 63 || strings.Trim(m.Hostname, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return glovebox.Invalid("hostname", "use at most 63 of [0-9A-Za-z-]", "%.80q is not a host name", m.Hostname)
	}
	env := map[string]string{}
	for k, v := range m.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return glovebox.Invalid("env", "leave it out", "%.80q can't be a variable", k)
		}
		env[k] = v
	}
	for name := range m.Files {
		if !path.IsAbs(name) || path.Clean(name) != name {
			return glovebox.Invalid("files", "use clean absolute paths", "%.200q is not one", name)
		}
	}
	if len(m.Seed) > 0 && s.o.Init {
		if err := os.WriteFile("/dev/urandom", m.Seed, 0); err != nil {
			return fmt.Errorf("seed the random pool: %w", err)
		}
		if err := s.rootFile(machineID, machineIDOf(m.Seed)); err != nil {
			return fmt.Errorf("name the machine: %w", err)
		}
	}
	known := s.knows(m.Secret)
	// It takes longest of all, and goes on beside the rest.
	if entropy := slices.Concat(m.Seed, m.Secret); len(entropy) > 0 && (!known || len(m.Seed) > 0) {
		s.cells.Renew(entropy)
	}
	if err := s.place(m); err != nil {
		return err
	}
	if len(m.CaCerts) > 0 {
		for _, k := range caVariables {
			if _, ok := env[k]; !ok {
				env[k] = s.real(caBundle)
			}
		}
	}
	s.mu.Lock()
	s.env = env
	s.mu.Unlock()
	if !known {
		if err := s.bindSecret(m.Secret); err != nil {
			return err
		}
	}
	if !s.o.Init {
		return nil
	}
	return errors.Join(setHostname(m.Hostname), setClock(timeOf(m.Now)))
}

// place brings certificates and files where they belong, unless it was told
// the very same the last time: a machine that was kept ready has them already.
func (s *Server) place(m *guestpb.Settings) error {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s", len(m.CaCerts), m.CaCerts)
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		fmt.Fprintf(h, "\n%q %d\n%s", name, len(m.Files[name]), m.Files[name])
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	s.placeMu.Lock()
	defer s.placeMu.Unlock()
	if sum == s.placed {
		return nil
	}
	s.placed = [sha256.Size]byte{}
	if len(m.CaCerts) > 0 {
		if err := s.trust(m.CaCerts); err != nil {
			return fmt.Errorf("add certificates: %w", err)
		}
	}
	for name, b := range m.Files {
		if err := s.rootFile(name, b); err != nil {
			return s.hide(err)
		}
	}
	s.placed = sum
	return nil
}

// machineID is where programs look for what tells this machine from others.
// D-Bus's own file is a link to it in Debian.
const machineID = "/etc/machine-id"

// machineIDOf makes the contents of machineID from a seed.
func machineIDOf(seed []byte) []byte {
	h := hmac.New(sha256.New, seed)
	h.Write([]byte("machine-id"))
	id := h.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID, as systemd makes it
	return []byte(hex.EncodeToString(id) + "\n")
}

// rootFile writes a small file of the system's. Below the home of the tools'
// user it becomes that user's.
func (s *Server) rootFile(name string, b []byte) error {
	full := s.real(name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	if err := replaceFile(full, b, 0o644); err != nil {
		return err
	}
	if s.o.UID == 0 || !strings.HasPrefix(name, guest.Home+"/") {
		return nil
	}
	for p := full; len(p) > len(s.real(guest.Home)); p = filepath.Dir(p) {
		if err := os.Lchown(p, s.o.UID, s.o.UID); err != nil {
			return err
		}
	}
	return nil
}

// caOriginal is where the image's own bundle is kept, so that being told
// again replaces what was added before.
const caOriginal = stateDir + "/ca-certificates.crt"

// trust adds certificates to the system's bundle, and beside it as files for
// the next run of update-ca-certificates, which is too slow to be run here.
func (s *Server) trust(bundle []byte) error {
	original, err := os.ReadFile(s.real(caOriginal))
	if errors.Is(err, fs.ErrNotExist) {
		original, err = os.ReadFile(s.real(caBundle))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = s.rootFile(caOriginal, original)
		}
	}
	if err != nil {
		return err
	}
	all := bytes.TrimRight(original, "\n")
	if len(all) > 0 {
		all = append(all, '\n')
	}
	n := 0
	for rest := bundle; ; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return glovebox.Invalid("ca_certs", "send certificates alone", "the bundle contains a %.40q", block.Type)
		}
		one := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		all = append(all, one...)
		if err := s.rootFile(caExtra+"/glovebox-"+strconv.Itoa(n)+".crt", one); err != nil {
			return err
		}
	}
	if n == 0 {
		return glovebox.Invalid("ca_certs", "send PEM", "no certificate is in the %d bytes", len(bundle))
	}
	return s.rootFile(caBundle, all)
}

func setHostname(name string) error {
	if name == "" {
		return nil
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the host name can't be set: %w", err)
	}
	hosts, _ := os.ReadFile("/etc/hosts")
	var b strings.Builder
	for line := range strings.Lines(string(hosts)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "# glovebox") {
			b.WriteString(line)
		}
	}
	if !strings.Contains(b.String(), "localhost") {
		b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	}
	fmt.Fprintf(&b, "127.0.1.1\t%s # glovebox\n", name)
	if b.String() == string(hosts) {
		return nil
	}
	return os.WriteFile("/etc/hosts", []byte(b.String()), 0o644)
}

// setClock sets the clock if it is more than a second off.
func setClock(now time.Time) error {
	if now.IsZero() {
		return nil
	}
	off := time.Since(now)
	if off.Abs() <= time.Second {
		return nil
	}
	tv := unix.NsecToTimeval(now.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the clock is off by %v and can't be set: %w", off.Round(time.Millisecond), err)
	}
	return nil
}

// stats adds up what the processes hold, and what the file systems that can
// be written to have used.
func (s *Server) stats() *guestpb.StatsReply {
	r := &guestpb.StatsReply{}
	dirs, _ := os.ReadDir("/proc")
	page := int64(os.Getpagesize())
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/statm")
		if err != nil {
			continue
		}
		r.Processes++
		if f := strings.Fields(string(b)); len(f) >= 3 {
			rss, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			r.MemoryBytes += max(0, rss-shared) * page
		}
	}
	seen := map[unix.Fsid]bool{}
	for _, dir := range []string{guest.Workspace, guest.Home, "/tmp"} {
		var st unix.Statfs_t
		if unix.Statfs(s.real(dir), &st) == nil && !seen[st.Fsid] {
			seen[st.Fsid] = true
			r.DiskBytes += int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return r
}

// checkpoint commits the workspace and sends the pack.
func (f *framed) checkpoint() error {
	var q guestpb.CheckpointRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	f.watchClose(nil)
	f.s.snapMu.Lock()
	defer f.s.snapMu.Unlock()
	err := f.s.repo.Checkpoint(f.s.real(guest.Workspace), q.Base, q.Message, f.s.asUser, func(i snap.Info) error {
		return f.w.WriteMessage(checkpointMessage(i))
	}, writerTo{f})
	if err != nil {
		return f.s.hide(err)
	}
	return f.w.End()
}

// maxChangeBytes is how much of the list of changes is sent.
const maxChangeBytes = 512 << 10

func checkpointMessage(i snap.Info) *guestpb.CheckpointReply {
	m := &guestpb.CheckpointReply{Commit: i.Commit.String(), Whole: i.Whole}
	size := 0
	for _, c := range i.Changes {
		if size += len(c.Path) + 16; size > maxChangeBytes {
			break
		}
		m.Changes = append(m.Changes, &guestpb.Change{Path: strings.ToValidUTF8(c.Path, "\uFFFD"), Added: c.Added, Deleted: c.Deleted})
	}
	for _, sk := range i.Skipped {
		m.Skipped = append(m.Skipped, strings.ToValidUTF8(sk, "\uFFFD"))
	}
	return m
}
