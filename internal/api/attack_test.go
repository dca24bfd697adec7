package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// TestDoorsOfOneJob: whoever opens the previews of one job again and again
// keeps nobody out of those of another.
func TestDoorsOfOneJob(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var l lives
	l.init(&API{o: Options{Now: func() time.Time { return now }}})
	until := now.Add(doorTTL).Unix()
	for i := range maxDoors {
		if !l.useDoor("greedy", fmt.Sprint(i), until) {
			t.Fatalf("door %d was refused", i)
		}
	}
	if l.useDoor("greedy", "one more", until) || l.useDoor("greedy", "0", until) {
		t.Error("a door beyond the bound, or used, was taken")
	}
	if !l.useDoor("other", "0", until) || l.useDoor("other", "0", until) {
		t.Error("the doors of another job")
	}
	now = now.Add(2 * doorTTL)
	if !l.useDoor("greedy", "later", now.Add(doorTTL).Unix()) || len(l.doors) != 1 || len(l.doors["greedy"]) != 1 {
		t.Errorf("after they expired: %d jobs, %d doors", len(l.doors), len(l.doors["greedy"]))
	}
}

// TestTerminalsAtOnce: the bound of terminals holds for those that are opened
// at the same moment.
func TestTerminalsAtOnce(t *testing.T) {
	t.Parallel()
	m := &fakeMachine{}
	e, id := liveEnv(t, m)
	var wg sync.WaitGroup
	for range 3 * maxShells {
		wg.Go(func() {
			if c, resp, err := e.dial("/jobs/" + id + "/terminal/ws"); err == nil {
				readText(t, c)
			} else if resp == nil || resp.StatusCode != http.StatusConflict {
				t.Errorf("refused with %v", err)
			}
		})
	}
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.terms); n == 0 || n > maxShells {
		t.Errorf("%d terminals run, at most %d may", n, maxShells)
	}
}

// TestNoCapabilityInLogs: what lets people in is in no log, also where a proxy
// in front leads to the wrong place.
func TestNoCapabilityInLogs(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range map[string]string{"Use-As-Dictionary": `match="/*"`, "Attribution-Reporting-Register-Source": "{}", "Sec-Shared-Storage-Writable": "?1", "X-App": "kept"} {
			w.Header().Set(k, v)
		}
		io.WriteString(w, "hi")
	})))
	j, err := e.store.Job(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	capability := e.api.capability(place{job: id, port: 3000}, j)
	link := e.link(id, glovebox.LinkControl)
	r := e.do("GET", "/preview/"+capability+"/x", "")
	if r.StatusCode != 200 || r.Header.Get("X-App") != "kept" {
		t.Fatalf("got %d", r.StatusCode)
	}
	for _, k := range []string{"Use-As-Dictionary", "Attribution-Reporting-Register-Source", "Sec-Shared-Storage-Writable"} {
		if v := r.Header.Get(k); v != "" {
			t.Errorf("%s reached the browser: %s", k, v)
		}
	}
	for _, path := range []string{
		"/wrong/preview/" + capability + "/x", "/preview/" + capability, "/preview//" + capability + "/", "/preview/x" + capability + "/y", "/jobs/preview/" + capability + "/",
		"/jobs/" + id + "/screen?link=" + link, "/jobs?link=" + link, "/status/" + id + "?link=" + link + "&nonsense=%zz", "/jobs/" + id + "/terminal/ws?link=" + link + "x",
	} {
		for _, method := range []string{"GET", "DELETE", "POST"} {
			e.do(method, path, "", "Accept", "text/html")
		}
	}
	log := e.log.String()
	if strings.Contains(log, capability) || strings.Contains(log, link) {
		at := max(strings.Index(log, capability), strings.Index(log, link))
		t.Errorf("the log has what lets people in: %s", log[max(0, at-200):at+20])
	}
}
