package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// benchHost has a loop write to a store, and no machine.
type benchHost struct {
	s *sqlite.Store
	l store.Lease
}

func (h benchHost) Append(ctx context.Context, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	return h.s.Append(ctx, h.l, events, consume...)
}
func (benchHost) Signals(context.Context) ([]glovebox.Signal, error) { return nil, nil }
func (benchHost) Guest(context.Context) (*guest.Client, error)       { return &guest.Client{}, nil }
func (benchHost) Checkpoint(context.Context) error                   { return nil }
func (benchHost) Save(context.Context, []byte) (handle string, _ error) {
	return "", errors.New("full")
}

type benchModel func(*llm.Request) (*llm.Response, error)

func (m benchModel) Stream(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
	return m(r)
}

var errEnough = errors.New("enough")

// run runs the loop until the model has enough.
func (h benchHost) run(b *testing.B, model benchModel, tools ...tool.Tool) {
	b.Helper()
	job, err := h.s.Job(b.Context(), "", h.l.JobID)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	_, err = agent.Run(ctx, agent.Options{Host: h, Job: job, Tools: tools, Digests: true, Info: llm.Info{Provider: "test", Window: 200_000, MaxOutput: 8000},
		Model: benchModel(func(r *llm.Request) (*llm.Response, error) {
			a, err := model(r)
			if errors.Is(err, errEnough) {
				cancel(err)
			}
			return a, err
		}),
		Events: func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error) {
			return h.s.Events(ctx, job.ID, after, limit)
		}})
	if !errors.Is(err, errEnough) {
		b.Fatal(err)
	}
}

// BenchmarkResume10M is what a worker that takes a job of 10 million tokens
// over needs until it asks the model, once the job's machine is there: the
// reading of the log and all that is made of it. The call under way when the
// other worker died is recorded first.
func BenchmarkResume10M(b *testing.B) {
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "glovebox.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := glovebox.Created{ID: glovebox.NewID(), Tenant: "t", Task: "Work.", Model: "test:m", Limits: glovebox.Limits{Steps: 1_000_000, Tokens: 100_000_000_000}.Or(glovebox.DefaultLimits())}
	if _, _, err := s.CreateJob(b.Context(), c, store.IdempotencyKey{}); err != nil {
		b.Fatal(err)
	}
	lease, err := s.Claim(b.Context(), "w", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	h := benchHost{s, *lease}
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return if err nil string the package import test error value file line of to in is not found key map slice build run parse write")
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "%4d\t", rng.IntN(2000))
			for range 9 {
				b.WriteString(" " + words[rng.IntN(len(words))])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	tokens := int64(10_000_000)
	h.run(b, func(r *llm.Request) (*llm.Response, error) {
		if tokens <= 0 {
			return nil, errEnough
		}
		said, in := text(300), mustJSON(map[string]string{"path": fmt.Sprintf("src/module%d/file%d.go", r.Step%40, r.Step%300)})
		tokens -= llm.TokensOf(said) + 100
		return &llm.Response{StopReason: llm.StopToolUse, Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text(said),
			{Type: glovebox.BlockToolUse, CallID: fmt.Sprint("call-", r.Step), Name: "read", Input: json.RawMessage(in)}}}}, nil
	}, tool.Tool{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, Run: func(context.Context, *tool.Env, json.RawMessage) (tool.Result, error) {
		out := text(rng.IntN(14_000) + 200)
		tokens -= llm.TokensOf(out)
		return tool.TextResult(out), nil
	}})
	var size, n int
	for after := int64(0); ; {
		page, err := s.Events(b.Context(), c.ID, after, 1000)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range page {
			size += len(e.Data)
			n++
			after = e.Seq
		}
		if len(page) < 1000 {
			break
		}
	}
	var took, most time.Duration
	cpu := cpuTime(b)
	for b.Loop() {
		begin := time.Now()
		h.run(b, func(*llm.Request) (*llm.Response, error) { return nil, errEnough })
		d := time.Since(begin)
		took, most = took+d, max(most, d)
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(n), "events")
	b.ReportMetric(took.Seconds()/float64(b.N), "s/resume")
	b.ReportMetric(most.Seconds(), "s/worst")
	b.ReportMetric((cpuTime(b)-cpu).Seconds()/float64(b.N), "cpu-s/resume") // what a busy machine does not change
}

// cpuTime returns how long this process has used processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
