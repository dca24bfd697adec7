package e2e

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// records are the files that the long job reads: lines of some service's log,
// with a fact in a line here and there.
type records struct {
	files []string
	facts []fact
}

// fact is something that the job is asked for at its end.
type fact struct {
	file   int    // the record that tells it
	line   string // of the record, what it says
	words  string // to look for
	answer string // that the line has
	old    string // answer of an earlier record that this one supersedes
	exact  string // an exact string to look for, beside the words
}

// recordSize is as much as a result holds without being cut.
const recordSize = 15_600

// newRecords returns so many records, the same for the same number.
func newRecords(n int) records {
	r := records{facts: []fact{
		{file: 2, line: "the service key of the harbour crane is KX-7719-QUILL", words: "service key harbour crane", answer: "KX-7719-QUILL"},
		{file: 5, line: "incident INC-40817 was closed after somebody turned valve 13-B", words: "incident closed valve", exact: "INC-40817", answer: "valve 13-B"},
		{file: n / 2, line: "the spare lamp of the lighthouse is kept in locker 58-GAMMA", words: "lighthouse spare lamp locker", answer: "58-GAMMA"},
		{file: n * 2 / 3, line: "the code of the tide gate is now 9026", words: "code tide gate now", answer: "now 9026", old: "is 4471"},
		{file: n, line: "the reserve anchor of the ferry weighs 1318 kg", words: "ferry reserve anchor weighs", answer: "1318 kg"},
	}}
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for i := 1; i <= n; i++ {
		var b strings.Builder
		for line := 0; b.Len() < recordSize-120; line++ {
			fmt.Fprintf(&b, "2031-03-%02d %02d:%02d:%02d %s[%d] %s %s: id=%08x took=%dms\n", 1+i%28, rng.IntN(24), rng.IntN(60), rng.IntN(60),
				pick(rng, services), 1000+rng.IntN(9000), pick(rng, verbs), pick(rng, things), rng.Uint32(), rng.IntN(5000))
			if line != 60 {
				continue
			}
			if i == 4 {
				b.WriteString("NOTE: the code of the tide gate is 4471\n")
			}
			for _, f := range r.facts {
				if f.file == i {
					b.WriteString("NOTE: " + f.line + "\n")
				}
			}
		}
		r.files = append(r.files, b.String())
	}
	return r
}

func pick(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

var (
	services = []string{"dispatcher", "billing", "radar", "moorings", "customs", "pilots", "weather", "ledger", "turnstile", "archive"}
	verbs    = []string{"accepted", "rejected", "queued", "retried", "forwarded", "closed", "opened", "measured", "reconciled", "dropped"}
	things   = []string{"a manifest", "an arrival", "the berth plan", "a payment", "a reading", "the tide table", "an invoice", "a crew list", "a route", "the shift roster"}
)

// zip returns an archive with the records and a file of standing instructions.
func (r records) zip(t *testing.T) []byte {
	t.Helper()
	files := map[string]string{"AGENTS.md": "# Rules of this archive\n\n" + fileRule + "\n"}
	for i, text := range r.files {
		files[recordName(i+1)] = text
	}
	return zipped(t, files)
}

// zipped returns files as an archive.
func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func recordName(i int) string { return fmt.Sprintf("records/%04d.log", i) }

// scheduleWith posts a task with an archive and options in JSON.
func (s *server) scheduleWith(task, options string, archive []byte) string {
	s.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	w.WriteField("task", task)
	w.WriteField("options", options)
	part, err := w.CreateFormFile("archive", "records.zip")
	if err != nil {
		s.t.Fatal(err)
	}
	part.Write(archive)
	w.Close()
	code, header, answer := s.call(http.MethodPost, "/schedule", w.FormDataContentType(), body.String())
	if code != http.StatusAccepted {
		s.t.Fatalf("POST /schedule: %d %s", code, answer)
	}
	return filepath.Base(header.Get("Location"))
}
