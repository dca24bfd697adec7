package hostconf

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of the certificates that are passed on. A system's own store has
// about 150 of them in 220 KB.
const (
	maxCAs     = 1000
	maxCABytes = 2 << 20
)

// caFiles and caDirs are where the stores of the usual systems are; the first
// file that is there is the store.
var (
	caFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}
	caDirs = []string{"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"}
	caVars = []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "GIT_SSL_CAINFO",
		"NIX_SSL_CERT_FILE", "AWS_CA_BUNDLE", "NPM_CONFIG_CAFILE", "npm_config_cafile"}
)

// cas gathers the certificates that the host trusts.
func (r *reader) cas() {
	c := &certs{seen: map[[32]byte]bool{}}
	r.publicCAs(c)
	for _, v := range caVars {
		if path := r.env[v]; filepath.IsAbs(path) {
			c.add(r.caFile(path))
		}
	}
	dirs := caDirs
	if v := r.env["SSL_CERT_DIR"]; v != "" {
		dirs = append(filepath.SplitList(v), dirs...)
	}
	for _, path := range caFiles {
		if s := r.caFile(path); s != "" {
			c.add(s)
			break
		}
	}
	for _, d := range dirs {
		entries, _ := os.ReadDir(filepath.Join(r.Root, d))
		for _, e := range entries[:min(len(entries), 2*maxCAs)] {
			if ext := filepath.Ext(e.Name()); ext == ".crt" || ext == ".pem" || ext == ".cer" {
				c.add(r.caFile(filepath.Join(d, e.Name())))
			}
		}
	}
	if c.full {
		r.warn("the host's certificates", "are too many; some are left out")
	}
	r.c.CAs = c.out.Bytes()
}

// publicDir holds, on Debian and its kin, the public certificates that come
// with the package ca-certificates, which the sandbox has as well.
const publicDir = "/usr/share/ca-certificates/mozilla"

// publicCAs marks the public certificates as seen: telling a guest about 150
// that it has would cost each job time.
func (r *reader) publicCAs(c *certs) {
	entries, _ := os.ReadDir(filepath.Join(r.Root, publicDir))
	for _, e := range entries[:min(len(entries), 2*maxCAs)] {
		c.add(r.caFile(filepath.Join(publicDir, e.Name())))
	}
	c.out.Reset()
	c.known = len(c.seen)
}

// caFile returns a file of certificates.
func (r *reader) caFile(path string) string {
	b, err := os.ReadFile(filepath.Join(r.Root, path))
	if err != nil || len(b) > maxCABytes {
		return ""
	}
	return string(b)
}

// certs collects certificates, each once.
type certs struct {
	out   bytes.Buffer
	seen  map[[32]byte]bool
	known int // of seen, those that are not passed on
	full  bool
}

// add takes the certificates from PEM that may hold other things: private
// keys, which stay where they are, and comments.
func (c *certs) add(s string) {
	for rest := []byte(s); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return
		}
		if block.Type != "CERTIFICATE" && !strings.HasSuffix(block.Type, "TRUSTED CERTIFICATE") {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		sum := sha256.Sum256(block.Bytes)
		if err != nil || !cert.IsCA && !bytes.Equal(cert.RawIssuer, cert.RawSubject) || c.seen[sum] {
			continue
		}
		if len(c.seen)-c.known >= maxCAs || c.out.Len() > maxCABytes {
			c.full = true
			return
		}
		c.seen[sum] = true
		_ = pem.Encode(&c.out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}) // into memory
	}
}
