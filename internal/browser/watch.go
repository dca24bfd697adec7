package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of what is kept of the events of a page.
const (
	maxProblems  = 20
	maxProblem   = 500    // bytes of each
	maxEvents    = 1_000  // of the console and the log; then they are turned off
	maxRequests  = 20_000 // then the network is not followed any more
	maxDocuments = 20     // that one page leads to by itself
	maxDialogs   = 50
)

// Report is how opening a page went.
type Report struct {
	URL    string // where it ended, after redirects
	Title  string // at most 200 bytes
	Status int    // of the document; 0 if there is none, as of a file

	// Failure is why there is no page, or not all of it: nothing listens, it
	// never ended loading, it crashed. Empty if it loaded, whatever its status.
	Failure string

	// Console has the first 20 of: errors written to the console, exceptions
	// that nobody caught, requests that failed, dialogs; at most 500 bytes each.
	Console    []string
	More       int // that are not in Console
	Exceptions int // that nobody caught
}

// watch gathers what happens in a page.
type watch struct {
	post func(method string, params object)

	changed chan struct{} // receives after something did
	dead    context.Context
	kill    context.CancelFunc

	mu        sync.Mutex
	r         Report
	frame     string            // the main one
	loader    string            // of the document in it
	awaited   string            // loader of the document that was asked for
	arrived   []string          // loaders of the documents that came, at most maxDocuments
	statuses  map[string]int    // of documents, by loader
	requests  map[string]string // under way: id -> URL
	loaded    bool
	idleSince time.Time
	events    int
	seen      int // requests
	documents int
	dialogs   int
	hung      bool // it can't be used any more
}

func newWatch(post func(string, object)) *watch {
	w := &watch{post: post, changed: make(chan struct{}, 1)}
	w.dead, w.kill = context.WithCancel(context.Background())
	w.start()
	return w
}

// start forgets what there was.
func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.r = Report{}
	w.frame, w.loader, w.loaded, w.hung = "", "", false, false
	w.awaited, w.arrived = "", nil
	w.statuses, w.requests = map[string]int{}, map[string]string{}
	w.idleSince = time.Now()
	w.events, w.seen, w.documents, w.dialogs = 0, 0, 0, 0
}

// await says which document was asked for. What the tab tells before that one
// is there is about the document before: it may come late.
func (w *watch) await(loader string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited = loader
}

// report returns what is known now.
func (w *watch) report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.r
	r.Console = append([]string(nil), r.Console...)
	r.Status = w.statuses[w.loader]
	return r
}

func (w *watch) failed(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.r.Failure == "" {
		w.r.Failure = why
	}
}

// hangs notes that the page does not answer.
func (w *watch) hangs() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung = true
	if w.dialogs < maxDialogs { // else it is known why
		w.r.Failure = "the page hangs: a script in it runs without end"
	}
}

// broken reports whether the tab is of no use any more.
func (w *watch) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hung || w.dead.Err() != nil
}

func (w *watch) identify(title, url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.r.Title, w.r.URL = title, url
}

// settled reports whether the document has loaded, and for how long no
// request has been under way.
func (w *watch) settled() (loaded bool, quiet time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) == 0 {
		quiet = max(time.Since(w.idleSince), 1)
	}
	if w.hung || w.dialogs >= maxDialogs {
		return true, time.Hour // it is known what is wrong with it
	}
	return w.loaded && w.has(), quiet
}

// has reports whether the document that was asked for is there; w.mu is held.
func (w *watch) has() bool {
	return slices.Contains(w.arrived, w.awaited)
}

func (w *watch) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// event takes an event of the page.
func (w *watch) event(method string, params json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch method {
	case "Inspector.targetCrashed", "Inspector.detached":
		w.kill()
	case "Page.javascriptDialogOpening":
		w.dialog(params)
	case "Page.loadEventFired":
		w.loaded = true
	case "Page.frameNavigated":
		w.navigated(params)
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		w.logged(method, params)
		return // nothing waits for it
	default:
		if !strings.HasPrefix(method, "Network.") {
			return
		}
		w.network(method, params)
	}
	w.wake()
}

// problem notes something that went wrong.
func (w *watch) problem(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...), maxProblem)
	if len(w.r.Console) >= maxProblems {
		w.r.More++
		return
	}
	w.r.Console = append(w.r.Console, text)
}

// dialog dismisses a dialog, which would hold the page; only that about
// leaving the page is agreed to.
func (w *watch) dialog(params json.RawMessage) {
	var d struct{ Type, Message string }
	if json.Unmarshal(params, &d) != nil {
		return
	}
	w.post("Page.handleJavaScriptDialog", object{"accept": d.Type == "beforeunload"})
	if w.dialogs++; w.dialogs == maxDialogs {
		// Whether the script that asks ends by that, or goes on, differs.
		w.post("Runtime.terminateExecution", nil)
		w.r.Failure = "it opens dialogs without end"
	}
	if d.Type != "beforeunload" {
		w.problem("%s dialog, dismissed: %s", clean(d.Type, 20), clean(d.Message, 300))
	}
}

// navigated notes that a frame has a new document.
func (w *watch) navigated(params json.RawMessage) {
	var n struct {
		Frame struct {
			ID, ParentID, LoaderID string
			URL                    string
		}
	}
	if json.Unmarshal(params, &n) != nil || n.Frame.ParentID != "" {
		return
	}
	w.frame, w.loader = n.Frame.ID, n.Frame.LoaderID
	w.r.URL = clean(n.Frame.URL, 500)
	w.loaded = false
	if len(w.arrived) < maxDocuments {
		w.arrived = append(w.arrived, w.loader)
	}
	if w.documents++; w.documents >= maxDocuments && !w.hung {
		w.hung = true // its tab is closed, since it goes on
		w.r.Failure = "it leads on to other pages without end"
	}
}

// logged takes what came through the console or the browser's log.
func (w *watch) logged(method string, params json.RawMessage) {
	if w.events++; w.events == maxEvents {
		w.problem("the page wrote more than %d lines to the console; the rest is not looked at", maxEvents)
		w.post("Runtime.disable", nil)
		w.post("Log.disable", nil)
	}
	if w.events >= maxEvents || len(params) > 1<<20 {
		return
	}
	var e struct {
		Type             string
		Args             []remoteObject
		ExceptionDetails exceptionDetails
		Entry            struct{ Source, Level, Text, URL string }
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	switch {
	case method == "Runtime.exceptionThrown":
		w.r.Exceptions++
		w.problem("uncaught %s", e.ExceptionDetails.String())
	case method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "assert"):
		words := make([]string, 0, min(len(e.Args), 20))
		for _, a := range e.Args[:min(len(e.Args), 20)] {
			words = append(words, a.String())
		}
		w.problem("console.%s: %s", e.Type, strings.Join(words, " "))
	case method == "Log.entryAdded" && e.Entry.Level == "error" && e.Entry.Source != "network" && e.Entry.Source != "javascript":
		w.problem("%s: %s", clean(e.Entry.Source, 20), e.Entry.Text)
	}
}

// remoteObject is a value of a page's script.
type remoteObject struct {
	Type        string
	Value       json.RawMessage
	Description string
}

func (o remoteObject) String() string {
	var s string
	switch {
	case json.Unmarshal(o.Value, &s) == nil && o.Value != nil && o.Type == "string":
		return clean(s, maxProblem)
	case o.Description != "":
		return clean(o.Description, maxProblem)
	case len(o.Value) > 0:
		return clean(string(o.Value), maxProblem)
	}
	return clean(o.Type, 20)
}

// exceptionDetails is an exception that nobody caught.
type exceptionDetails struct {
	Text       string
	URL        string
	LineNumber int
	Exception  *remoteObject
}

func (e exceptionDetails) String() string {
	text := e.Text
	if e.Exception != nil {
		text = e.Exception.String()
	}
	if e.URL != "" {
		text = clean(text, 300) + fmt.Sprintf(" (%s:%d)", clean(e.URL, 120), e.LineNumber+1)
	}
	return text
}
