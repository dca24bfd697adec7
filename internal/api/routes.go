package api

import (
	"net/http"

	"github.com/glovebox-dev/glovebox"
)

// route is one endpoint: how it is served, and how it is described.
type route struct {
	method  string
	path    string         // as in http.ServeMux
	scope   glovebox.Scope // empty: no token is asked for
	anyHost bool           // Host and Origin are not checked: probes use addresses
	handle  handler

	link     glovebox.LinkScope // what a link must allow to be taken instead of a token; empty: none is
	every    bool               // all methods, of which method is described
	foreign  bool               // requests from pages of other origins get through: handle checks them
	anyQuery bool               // the query is not ours

	// For OpenAPI.
	id      string
	summary string
	doc     string
	query   []param
	header  []param
	body    []media
	answers []answer
	fails   []int // statuses of problems, beside those that every route has
}

// param is a parameter in the query or in a header.
type param struct {
	name, doc string
	typ       string // integer or string
	list      bool   // it may be repeated
}

// media is a body under one content type. typ is a value of the Go type that
// it is the JSON of, nil for what is not JSON.
type media struct {
	contentType string
	typ         any
	form        map[string]string // parts of multipart/form-data and what they hold
}

// answer is a response that is not a problem.
type answer struct {
	status  int
	doc     string
	media   []media
	headers map[string]string
}

const jsonType, textType, eventsType = "application/json", "text/plain", "text/event-stream"

func jsonAnswer(status int, doc string, typ any, headers ...string) []answer {
	a := answer{status: status, doc: doc, media: []media{{contentType: jsonType, typ: typ}}}
	for i := 0; i+1 < len(headers); i += 2 {
		if a.headers == nil {
			a.headers = map[string]string{}
		}
		a.headers[headers[i]] = headers[i+1]
	}
	return []answer{a}
}

// register fills the mux and writes the OpenAPI document.
func (a *API) register() {
	routes := a.routes()
	for _, rt := range routes {
		pattern := rt.method + " " + rt.path
		if rt.every {
			pattern = rt.path
		}
		a.mux.HandleFunc(pattern, a.serve(rt))
	}
	a.registerPage()
	a.mux.HandleFunc("/", a.serve(route{handle: a.unmatched}))
	a.spec = buildSpec(routes)
}

// routes is the table of all endpoints.
func (a *API) routes() []route {
	rs := a.submitRoutes()
	rs = append(rs, a.jobRoutes()...)
	rs = append(rs, a.eventRoutes()...)
	rs = append(rs, a.controlRoutes()...)
	rs = append(rs, a.artifactRoutes()...)
	rs = append(rs, a.takeoverRoutes()...)
	rs = append(rs, a.historyRoutes()...)
	rs = append(rs, a.memoryRoutes()...)
	rs = append(rs, a.projectRoutes()...)
	rs = append(rs, a.modelRoutes()...)
	rs = append(rs, a.liveRoutes()...)
	rs = append(rs, a.pageRoutes()...)
	return append(rs, a.serverRoutes()...)
}

func (a *API) submitRoutes() []route {
	submit := route{
		method: http.MethodPost, path: "/schedule", scope: glovebox.ScopeWrite, handle: a.submit,
		id: "schedule", summary: "Submit a task",
		doc: "Answers 202 once the job is durable. The body is the task as text (also under the content type that curl --data sends), a submission in JSON, or multipart/form-data to bring an archive along. " +
			"With an Idempotency-Key a repeated request returns the job of the first one; a different request under the same key is a 409.",
		query:  []param{{name: "project", typ: "string", doc: "The same as project in a submission, for tasks that are sent as text."}},
		header: []param{{name: "Idempotency-Key", typ: "string", doc: "1 to 255 visible ASCII characters of your own, unique for each submission."}},
		body: []media{
			{contentType: textType},
			{contentType: "application/x-www-form-urlencoded"},
			{contentType: jsonType, typ: glovebox.Submission{}},
			{contentType: "multipart/form-data", form: map[string]string{
				"task": "The task as text.", "prompt": "Another name for task.", "model": "The model.", "project": "The project.", "options": "A submission in JSON, for everything else.",
				"archive": "A zip or tar.gz to start from."}},
		},
		answers: jsonAnswer(http.StatusAccepted, "The job exists and will run.", glovebox.Accepted{}, "Location", "The job's status.", "Idempotency-Replayed", "true if the job is that of an earlier request."),
		fails:   []int{http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable},
	}
	alias := submit
	alias.path, alias.id, alias.summary = "/submit", "submit", "Submit a task (the same as /schedule)"
	return []route{submit, alias}
}

func (a *API) jobRoutes() []route {
	status := route{
		method: http.MethodGet, path: "/status/{id}", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.status,
		id: "status", summary: "The state of a job",
		doc: "With wait, answers when the job has moved on from the event that the client knows (seq, or the tag in If-None-Match, else the newest), when it is terminal, or when the time is over. " +
			"The tag is weak: the time spent in the current phase moves on under it.",
		query: []param{
			{name: "wait", typ: "string", doc: "How long to wait for a change, at most 60s, e.g. 30s."},
			{name: "seq", typ: "integer", doc: "The seq that the client knows."},
		},
		header:  []param{{name: "If-None-Match", typ: "string", doc: "The ETag of an earlier answer."}},
		answers: append(jsonAnswer(http.StatusOK, "The state.", glovebox.JobView{}, "ETag", "Changes when the job does."), answer{status: http.StatusNotModified, doc: "The client has it."}),
		fails:   []int{http.StatusNotFound},
	}
	alias := status
	alias.path, alias.id, alias.summary = "/jobs/{id}", "getJob", "The state of a job (the same as /status/{id})"
	return []route{status, alias, {
		method: http.MethodGet, path: "/jobs", scope: glovebox.ScopeRead, handle: a.list,
		id: "listJobs", summary: "Jobs, newest first",
		query: []param{
			{name: "status", typ: "string", list: true, doc: "pending, running, complete, error or cancelled; repeat it for several."},
			{name: "q", typ: "string", doc: "Words that the task contains."},
			{name: "cursor", typ: "string", doc: "From the page before."},
			{name: "limit", typ: "integer", doc: "1 to 100; 50 if left out."},
		},
		answers: jsonAnswer(http.StatusOK, "A page. Verification is left out of its jobs.", glovebox.JobList{}),
	}, {
		method: http.MethodDelete, path: "/jobs/{id}", scope: glovebox.ScopeWrite, handle: a.remove,
		id: "deleteJob", summary: "Delete a job that has ended, and all that belongs to it",
		answers: []answer{{status: http.StatusNoContent, doc: "It is gone."}},
		fails:   []int{http.StatusNotFound, http.StatusConflict},
	}}
}

func (a *API) eventRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/jobs/{id}/events", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.events,
		id: "events", summary: "What happened to a job, as pages or as a stream",
		doc: "With Accept: text/event-stream all events after the given one are sent, then new ones as they come. Each has its number as id, its type as event, and the event in JSON as data. " +
			"model.delta and tool.output have no id: they are pieces of what a later event holds whole, and may be missed. " +
			"After the last event of a job that has ended comes one named end. A stream that breaks off without it is taken up again with Last-Event-ID.",
		query: []param{
			{name: "after", typ: "integer", doc: "Only events after this number."},
			{name: "limit", typ: "integer", doc: "Of pages: 1 to 500; 100 if left out."},
		},
		header: []param{{name: "Last-Event-ID", typ: "string", doc: "Of streams: the same as after, and stronger."}},
		answers: []answer{{status: http.StatusOK, doc: "A page, or the stream.", media: []media{
			{contentType: jsonType, typ: glovebox.EventList{}}, {contentType: eventsType}}}},
		fails: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}}
}

func (a *API) controlRoutes() []route {
	accepted := jsonAnswer(http.StatusAccepted, "The job as it is now. A running one takes it up a moment later.", glovebox.JobView{}, "ETag", "Changes when the job does.")
	return []route{{
		method: http.MethodPost, path: "/jobs/{id}/cancel", scope: glovebox.ScopeWrite, handle: a.cancel,
		id: "cancel", summary: "End a job", answers: accepted, fails: []int{http.StatusNotFound, http.StatusConflict},
	}, {
		method: http.MethodPost, path: "/jobs/{id}/messages", scope: glovebox.ScopeWrite, handle: a.message,
		id: "say", summary: "Say something to a job: steer it, or answer its question",
		doc: "At most 8 MiB. Of a text of more than 64 KiB the event user.message has the beginning, and its field blob names the output of the job that holds the whole.",
		body: []media{{contentType: textType}, {contentType: jsonType, typ: struct {
			Text string `json:"text" maxLength:"8388608"`
		}{}}},
		answers: accepted,
		fails:   []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
	}, {
		method: http.MethodPatch, path: "/jobs/{id}/limits", scope: glovebox.ScopeWrite, handle: a.limits,
		id: "raiseLimits", summary: "Raise limits of a job",
		doc:     "Only steps, tokens, cost_micros and wall_time_seconds, and only upwards; what is left out stays. A limit can't be removed, and one of money can't be given to a job that began without: bound that one by tokens, or set cost_micros when it is submitted. A job that ended because it reached one of them goes on.",
		body:    []media{{contentType: jsonType, typ: glovebox.Limits{}}},
		answers: accepted,
		fails:   []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
	}}
}

func (a *API) artifactRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/jobs/{id}/artifact.zip", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.download,
		id: "download", summary: "The finished project as a zip", doc: "Ranges are supported.",
		header: []param{{name: "Range", typ: "string", doc: "e.g. bytes=1000-"}, {name: "If-Range", typ: "string", doc: "The ETag that the range belongs to."}},
		answers: []answer{{status: http.StatusOK, doc: "The zip.", media: []media{{contentType: "application/zip"}}, headers: map[string]string{
			"ETag": "The SHA-256 in quotes.", "X-Content-SHA256": "SHA-256 of the whole zip, in hex.", "Repr-Digest": "The same, as RFC 9530 writes it."}},
			{status: http.StatusPartialContent, doc: "The range.", media: []media{{contentType: "application/zip"}}}, {status: http.StatusNotModified, doc: "The client has it."},
			{status: http.StatusRequestedRangeNotSatisfiable, doc: "There is no such range."}},
		fails: []int{http.StatusNotFound, http.StatusConflict},
	}, {
		method: http.MethodGet, path: "/jobs/{id}/artifact", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.manifest,
		id: "manifest", summary: "What is in the zip, and what is not and why",
		answers: jsonAnswer(http.StatusOK, "The manifest.", glovebox.Manifest{}), fails: []int{http.StatusNotFound, http.StatusConflict},
	}, {
		method: http.MethodGet, path: "/jobs/{id}/files/{path...}", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.files,
		id: "file", summary: "A file or directory of the project",
		query: []param{stepParam},
		doc:   "From the sandbox while the job runs, from the artifact afterwards; with step, as it was then. A directory is a list in JSON; a file is a download whose type is text/plain, an image, or application/octet-stream, never anything that a browser would run.",
		answers: []answer{{status: http.StatusOK, doc: "The list, or the file.", media: []media{
			{contentType: jsonType, typ: glovebox.DirList{}}, {contentType: "text/plain; charset=utf-8"}, {contentType: "application/octet-stream"}}}},
		fails: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}, {
		method: http.MethodGet, path: "/jobs/{id}/outputs/{handle}", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.output,
		id: "output", summary: "The whole output of a tool whose result in the log is cut",
		doc:    "The handle is the field blob of a tool.finished event. Ranges are supported. A download like the files: text/plain, an image, or application/octet-stream.",
		header: []param{{name: "Range", typ: "string", doc: "e.g. bytes=1000-"}},
		answers: []answer{{status: http.StatusOK, doc: "The output.", media: []media{{contentType: "text/plain; charset=utf-8"}, {contentType: "application/octet-stream"}}, headers: map[string]string{"ETag": "The handle in quotes."}},
			{status: http.StatusPartialContent, doc: "The range.", media: []media{{contentType: "text/plain; charset=utf-8"}, {contentType: "application/octet-stream"}}},
			{status: http.StatusNotModified, doc: "The client has it."}, {status: http.StatusRequestedRangeNotSatisfiable, doc: "There is no such range."}},
		fails: []int{http.StatusNotFound},
	}}
}

func (a *API) serverRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/{$}", handle: a.home, id: "index", summary: "What this is",
		answers: []answer{{status: http.StatusOK, doc: "Text, JSON to who accepts it, or the page to browsers.", media: []media{{contentType: "text/plain; charset=utf-8"}, {contentType: jsonType, typ: about{}}}}},
	}, {
		method: http.MethodGet, path: "/openapi.json", handle: a.openapi, id: "openapi", summary: "This document",
		answers: []answer{{status: http.StatusOK, doc: "OpenAPI 3.1.", media: []media{{contentType: "application/openapi+json"}}}},
	}, {
		method: http.MethodGet, path: "/healthz", anyHost: true, handle: a.healthz, id: "healthz", summary: "Whether the process serves",
		answers: jsonAnswer(http.StatusOK, "It does.", health{}),
	}, {
		method: http.MethodGet, path: "/readyz", anyHost: true, handle: a.readyz, id: "readyz", summary: "Whether to send requests here",
		answers: jsonAnswer(http.StatusOK, "Yes.", health{}), fails: []int{http.StatusServiceUnavailable},
	}, {
		method: http.MethodGet, path: "/metrics", scope: glovebox.ScopeRead, handle: a.serveMetrics, id: "metrics", summary: "Metrics for Prometheus",
		answers: []answer{{status: http.StatusOK, doc: "Prometheus' text format.", media: []media{{contentType: textType}}}},
	}}
}
