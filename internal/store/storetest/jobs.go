package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

func testCreateAndRead(t *testing.T, h Harness) {
	f := open(t, h)
	c := NewCreated("t1", "Build Ünïcode \"things\"\n\x01")
	c.Files = &glovebox.Files{GitURL: "https://example.org/x.git"}
	c.Egress = glovebox.Egress{Mode: glovebox.EgressOnly, Allow: []string{".example.org"}}
	j, created, err := f.CreateJob(f.ctx(), c, store.IdempotencyKey{})
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	got := f.job(c.ID)
	if mustJSON(got) != mustJSON(j) {
		t.Errorf("Job differs from what CreateJob returned:\n%s\n%s", mustJSON(got), mustJSON(j))
	}
	if got.Task != c.Task || got.Status != glovebox.StatusPending || got.Phase != glovebox.PhaseQueued || got.Seq != 1 ||
		!got.CreatedAt.Equal(f.clock.Now()) || got.Files.GitURL != c.Files.GitURL || got.Metadata["k"] != "v" {
		t.Errorf("job is %s", mustJSON(got))
	}
	if ev := f.checkLog(c.ID); len(ev) != 1 || ev[0].Type != glovebox.EventCreated {
		t.Errorf("events are %v", types(ev))
	}
	got.Status = glovebox.StatusError // the caller's own copy
	f.wantStatus(c.ID, glovebox.StatusPending)
	_, err = f.Job(f.ctx(), "", glovebox.NewID())
	f.wantCode(err, glovebox.CodeNotFound)
	_, err = f.Job(f.ctx(), "", "'; drop table jobs; --"+strings.Repeat("x", 1000))
	f.wantCode(err, glovebox.CodeNotFound)
	_, err = f.Events(f.ctx(), glovebox.NewID(), 0, 10)
	f.wantCode(err, glovebox.CodeNotFound)
}

func testCreateRefuses(t *testing.T, h Harness) {
	f := open(t, h)
	for name, c := range map[string]struct {
		change func(*glovebox.Created)
		code   glovebox.Code
	}{
		"no id":      {func(c *glovebox.Created) { c.ID = "" }, glovebox.CodeInvalid},
		"odd id":     {func(c *glovebox.Created) { c.ID = "../../../../etc/passwd-abc" }, glovebox.CodeInvalid},
		"no tenant":  {func(c *glovebox.Created) { c.Tenant = "" }, glovebox.CodeInvalid},
		"no task":    {func(c *glovebox.Created) { c.Task = " \n" }, glovebox.CodeInvalid},
		"long task":  {func(c *glovebox.Created) { c.Task = strings.Repeat("x", 1<<20+1) }, glovebox.CodeTooLarge},
		"not UTF-8":  {func(c *glovebox.Created) { c.Task = "a\xffb" }, glovebox.CodeInvalid},
		"large meta": {func(c *glovebox.Created) { c.Metadata = map[string]string{"x": strings.Repeat("y", 9<<20)} }, glovebox.CodeTooLarge},
	} {
		created := NewCreated("t", "x")
		c.change(&created)
		_, _, err := f.CreateJob(f.ctx(), created, store.IdempotencyKey{})
		if glovebox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := f.CreateJob(f.ctx(), NewCreated("t", "x"), store.IdempotencyKey{Key: strings.Repeat("k", 256)})
	f.wantCode(err, glovebox.CodeTooLarge)
	long := NewCreated("t", strings.Repeat("x", 1<<20))
	if _, _, err := f.CreateJob(f.ctx(), long, store.IdempotencyKey{Key: strings.Repeat("k", 255)}); err != nil {
		t.Errorf("the largest task: %v", err)
	}
	_, _, err = f.CreateJob(f.ctx(), long, store.IdempotencyKey{})
	f.wantCode(err, glovebox.CodeConflict) // the id exists
	page, err := f.ListJobs(f.ctx(), store.JobFilter{Limit: 10})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs were made, %v", len(page.Jobs), err)
	}
}

func testIdempotency(t *testing.T, h Harness) {
	f := open(t, h)
	key := store.IdempotencyKey{Key: "k", Digest: [32]byte{1}}
	var mu sync.Mutex
	made, ids := 0, map[string]bool{}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			j, created, err := f.CreateJob(f.ctx(), NewCreated("t", "x"), key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			ids[j.ID] = true
			if created {
				made++
			}
		})
	}
	wg.Wait()
	if made != 1 || len(ids) != 1 {
		t.Fatalf("%d created, %d ids", made, len(ids))
	}
	_, _, err := f.CreateJob(f.ctx(), NewCreated("t", "y"), store.IdempotencyKey{Key: "k", Digest: [32]byte{2}})
	f.wantCode(err, glovebox.CodeConflict)
	if _, created, err := f.CreateJob(f.ctx(), NewCreated("other", "y"), store.IdempotencyKey{Key: "k", Digest: [32]byte{2}}); err != nil || !created {
		t.Errorf("the same key of another tenant: created %v, %v", created, err)
	}
	// A replay returns the job as it is now.
	l := f.claim("w")
	f.append(l, f.finished(glovebox.StatusComplete, nil))
	j, created, err := f.CreateJob(f.ctx(), NewCreated("t", "x"), key)
	if err != nil || created || j.Status != glovebox.StatusComplete {
		t.Errorf("replay: created %v, %v, %v", created, j, err)
	}
	if err := f.DeleteJob(f.ctx(), "t", j.ID); err != nil {
		t.Fatal(err)
	}
	if _, created, err := f.CreateJob(f.ctx(), NewCreated("t", "x"), key); err != nil || !created {
		t.Errorf("after deletion: created %v, %v", created, err)
	}
}

func testTenantIsolation(t *testing.T, h Harness) {
	f := open(t, h)
	mine, theirs := f.create("me", "x"), f.create("they", "x")
	for range 2 { // the second time it may be cached
		_, err := f.Job(f.ctx(), "me", theirs)
		f.wantCode(err, glovebox.CodeNotFound)
		if _, err := f.Job(f.ctx(), "they", theirs); err != nil {
			t.Error(err)
		}
	}
	f.wantCode(f.SendSignal(f.ctx(), "me", theirs, glovebox.Signal{Cancel: true}), glovebox.CodeNotFound)
	if err := f.SendSignal(f.ctx(), "they", theirs, glovebox.Signal{Cancel: true}); err != nil {
		t.Error(err)
	}
	f.wantCode(f.DeleteJob(f.ctx(), "me", theirs), glovebox.CodeNotFound)
	f.wantStatus(theirs, glovebox.StatusCancelled)
	page, err := f.ListJobs(f.ctx(), store.JobFilter{Tenant: "me", Limit: 10})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != mine {
		t.Errorf("list: %v, %v", page, err)
	}
}

func testList(t *testing.T, h Harness) {
	f := open(t, h)
	var want []string
	for i := range 25 {
		want = append(want, f.create("t", fmt.Sprintf("Task ÄPFEL number_%d 100%% done", i)))
	}
	slices.Reverse(want)
	var got []string
	cursor := ""
	for n := 0; ; n++ {
		page, err := f.ListJobs(f.ctx(), store.JobFilter{Tenant: "t", Cursor: cursor, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			got = append(got, j.ID)
			if j.Task == "" {
				t.Errorf("job %s is listed without its task", j.ID)
			}
		}
		f.create("t", "inserted meanwhile")
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages give %d jobs %v,\nwant %d %v", len(got), got, len(want), want)
	}
	f.claim("w")
	for query, n := range map[string]int{"äpfel": 25, "TASK  number_7\t": 1, "number%": 0, "inserted": 3, "numberX7": 0, `\`: 0, "100%": 25} {
		page, err := f.ListJobs(f.ctx(), store.JobFilter{Query: query, Limit: 100})
		if err != nil || len(page.Jobs) != n {
			t.Errorf("%q finds %d, want %d, %v", query, len(page.Jobs), n, err)
		}
	}
	for _, c := range []struct {
		status []glovebox.Status
		n      int
	}{{[]glovebox.Status{glovebox.StatusRunning}, 1}, {[]glovebox.Status{glovebox.StatusRunning, glovebox.StatusPending}, 28},
		{[]glovebox.Status{glovebox.StatusError}, 0}} {
		page, err := f.ListJobs(f.ctx(), store.JobFilter{Tenant: "t", Status: c.status, Limit: 1000})
		if err != nil || len(page.Jobs) != c.n {
			t.Errorf("%v finds %d, want %d, %v", c.status, len(page.Jobs), c.n, err)
		}
	}
	for _, bad := range []store.JobFilter{{Limit: 0}, {Limit: 1001}, {Limit: -1}, {Limit: 1, Cursor: "; --"}} {
		_, err := f.ListJobs(f.ctx(), bad)
		f.wantCode(err, glovebox.CodeInvalid)
	}
}

func testQueuePosition(t *testing.T, h Harness) {
	f := open(t, h)
	a, b, c := f.create("t", "a"), f.create("u", "b"), f.create("t", "c")
	want := func(id string, n int64) {
		t.Helper()
		if got, err := f.QueuePosition(f.ctx(), id); err != nil || got != n {
			t.Errorf("position is %d, want %d, %v", got, n, err)
		}
	}
	want(a, 1)
	want(b, 2)
	want(c, 3)
	f.claim("w")
	want(a, 0)
	want(c, 2)
	f.clock.Add(leaseLength) // a's lease ran out: it is claimable, and ahead
	want(c, 3)
	if err := f.SendSignal(f.ctx(), "", b, glovebox.Signal{Cancel: true}); err != nil {
		t.Fatal(err)
	}
	want(c, 2)
	_, err := f.QueuePosition(f.ctx(), glovebox.NewID())
	f.wantCode(err, glovebox.CodeNotFound)
}

func testDelete(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	f.wantCode(f.DeleteJob(f.ctx(), "t", id), glovebox.CodeConflict)
	l := f.claim("w")
	f.wantCode(f.DeleteJob(f.ctx(), "t", id), glovebox.CodeConflict)
	f.append(l, f.finished(glovebox.StatusComplete, nil))
	watch := f.Watch(f.ctx(), id)
	if err := f.DeleteJob(f.ctx(), "t", id); err != nil {
		t.Fatal(err)
	}
	<-watch
	for _, err := range []error{
		f.DeleteJob(f.ctx(), "t", id),
		func() error { _, err := f.Job(f.ctx(), "", id); return err }(),
		func() error { _, err := f.Events(f.ctx(), id, 0, 10); return err }(),
		func() error { _, err := f.PendingSignals(f.ctx(), id); return err }(),
		f.SendSignal(f.ctx(), "", id, glovebox.Signal{Text: "x"}),
		f.Renew(f.ctx(), l, leaseLength),
	} {
		f.wantCode(err, glovebox.CodeNotFound)
	}
}

func testContextCancelled(t *testing.T, h Harness) {
	f := open(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := NewCreated("t", "x")
	if _, _, err := f.CreateJob(ctx, c, store.IdempotencyKey{}); err == nil {
		t.Error("a cancelled context is accepted")
	}
	_, err := f.Job(f.ctx(), "", c.ID)
	f.wantCode(err, glovebox.CodeNotFound)

	// However a cancel and a write meet: an error means no change.
	for i := range 50 {
		c := NewCreated("t", "x")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for range i * 20 {
				_ = time.Now()
			}
			cancel()
		})
		_, _, err := f.CreateJob(ctx, c, store.IdempotencyKey{})
		wg.Wait()
		_, readErr := f.Job(f.ctx(), "", c.ID)
		if (err == nil) != (readErr == nil) {
			t.Fatalf("create: %v, read: %v", err, readErr)
		}
	}
}

func testTokens(t *testing.T, h Harness) {
	f := open(t, h)
	tok := glovebox.Token{ID: glovebox.NewID(), Tenant: "t", Scope: glovebox.ScopeWrite, Hash: [32]byte{1, 2, 255}, CreatedAt: f.clock.Now()}
	if err := f.CreateToken(f.ctx(), tok); err != nil {
		t.Fatal(err)
	}
	f.wantCode(f.CreateToken(f.ctx(), tok), glovebox.CodeConflict)
	same := tok
	same.ID = glovebox.NewID()
	f.wantCode(f.CreateToken(f.ctx(), same), glovebox.CodeConflict)
	bad := glovebox.Token{ID: glovebox.NewID(), Tenant: "t", Scope: "root", Hash: [32]byte{9}}
	f.wantCode(f.CreateToken(f.ctx(), bad), glovebox.CodeInvalid)
	got, err := f.TokenByHash(f.ctx(), tok.Hash)
	if err != nil || *got != tok {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = f.TokenByHash(f.ctx(), [32]byte{})
	f.wantCode(err, glovebox.CodeNotFound)
	if list, err := f.ListTokens(f.ctx()); err != nil || len(list) != 1 || list[0] != tok {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := f.DeleteToken(f.ctx(), tok.ID); err != nil {
		t.Error(err)
	}
	f.wantCode(f.DeleteToken(f.ctx(), tok.ID), glovebox.CodeNotFound)
	_, err = f.TokenByHash(f.ctx(), tok.Hash)
	f.wantCode(err, glovebox.CodeNotFound)
}

func testReopen(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	f.append(l, f.notice("a"))
	before := mustJSON(f.job(id))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.Store = f.another(h)
	if after := mustJSON(f.job(id)); after != before {
		t.Errorf("the job changed:\n%s\n%s", before, after)
	}
	f.append(l, f.notice("b")) // the lease is the worker's, not the store's
	if n := len(f.checkLog(id)); n != 4 {
		t.Errorf("%d events", n)
	}
}

func testClosedStore(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.CreateJob(f.ctx(), NewCreated("t", "x"), store.IdempotencyKey{}); err == nil {
		t.Error("CreateJob works on a closed store")
	}
	if _, err := f.Job(f.ctx(), "", id); err == nil {
		t.Error("Job works on a closed store")
	}
	if err := f.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
