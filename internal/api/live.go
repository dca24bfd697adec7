package api

import (
	"net/http"

	"github.com/glovebox-dev/glovebox"
)

// liveRoutes are those by which people watch a job's machine and step in.
func (a *API) liveRoutes() []route {
	return append(a.linkRoutes(), a.machineRoutes()...)
}

var noMachine = []int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusServiceUnavailable}

func (a *API) linkRoutes() []route {
	return []route{{
		method: http.MethodPost, path: "/jobs/{id}/links", scope: glovebox.ScopeRead, handle: a.makeLink,
		id: "makeLink", summary: "Make a link to a job, for who has no token",
		doc: "It stands for a token, as ?link=, where this document says so: to watch the job, and with scope control also to step in. It is sealed, bound to the job, and expires; what was opened before goes on. " +
			"A page makes itself one for what can't send a token: WebSockets, frames and images. A token for reading can make links to view.",
		body:    []media{{contentType: jsonType, typ: glovebox.LinkRequest{}}},
		answers: jsonAnswer(http.StatusCreated, "The link.", glovebox.Link{}),
		fails:   []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge},
	}, {
		method: http.MethodPost, path: "/jobs/{id}/places", scope: glovebox.ScopeRead, link: glovebox.LinkControl, handle: a.makePlace,
		id: "makePlace", summary: "Where a browser can see what a job's machine serves",
		doc: "An address with an origin of its own where the server has a domain for that, or is used by the name localhost; else one below /preview/, which browsers treat as of no origin. " +
			"A notebook needs an origin of its own: without one this is a 409.",
		body:    []media{{contentType: jsonType, typ: glovebox.PlaceRequest{}}},
		answers: jsonAnswer(http.StatusCreated, "The address.", glovebox.Place{}),
		fails:   append([]int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge}, noMachine...),
	}}
}

func (a *API) machineRoutes() []route {
	socket := []answer{{status: http.StatusSwitchingProtocols, doc: "The WebSocket."}}
	socketFails := append([]int{http.StatusUpgradeRequired}, noMachine...)
	const codes = " It is closed with 4410 when the job ends, 4503 when the machine goes away for a while, and 1012 after 12 hours: then connect again."
	return []route{{
		method: http.MethodGet, path: "/jobs/{id}/screen", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.screen,
		id: "screen", summary: "The page that shows a job's screen, or its recording once it has ended",
		answers: []answer{{status: http.StatusSeeOther, doc: "To the page.", headers: map[string]string{"Location": "Relative to this address."}}}, fails: []int{http.StatusNotFound},
	}, {
		method: http.MethodGet, path: "/jobs/{id}/screen/ws", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.screenSocket,
		id: "screenSocket", summary: "A job's screen, as a WebSocket that noVNC understands",
		doc: "RFB 3.8 in binary messages, without a password. Mouse, keyboard and clipboard pass only from who may control (a token for writing, or a link with scope control) and only while a person has taken over (POST /jobs/{id}/control); " +
			"everything else that acts on the machine is dropped by the server." + codes,
		answers: socket, fails: socketFails,
	}, {
		method: http.MethodGet, path: "/jobs/{id}/terminal/ws", scope: glovebox.ScopeWrite, link: glovebox.LinkControl, handle: a.terminalSocket,
		id: "terminalSocket", summary: "A terminal in a job's sandbox, as a WebSocket",
		doc: "A login shell as the user of the agent's tools, in /workspace. Binary messages are what it writes and what is typed. Text messages are JSON: " +
			`{"type":"ready","terminal":ID,"offset":N} comes first; {"type":"gap","bytes":N} where output was dropped; {"type":"exit","code":N} at the end. The client sends {"type":"resize","rows":R,"cols":C}. ` +
			"Given the id again, the same terminal is found, from the byte at offset on. At most 8 run at once; one that nobody is at for 15 minutes is hung up. The agent is told that a person opened a terminal." + codes + " 4408: nothing happened for an hour.",
		query: []param{
			{name: "terminal", typ: "string", doc: "The id of one that was opened before; a new one if left out."},
			{name: "offset", typ: "integer", doc: "Only output after so many bytes."},
			{name: "rows", typ: "integer", doc: "1 to 500; 24 if left out."},
			{name: "cols", typ: "integer", doc: "1 to 1000; 80 if left out."},
		},
		answers: socket, fails: socketFails,
	}, {
		method: http.MethodGet, path: "/jobs/{id}/ports", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.ports,
		id: "ports", summary: "The ports that something in a job's sandbox listens on",
		answers: jsonAnswer(http.StatusOK, "The ports.", glovebox.PortList{}), fails: noMachine,
	}, {
		method: http.MethodGet, path: "/jobs/{id}/services", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.services,
		id: "services", summary: "The services of a job's machine: display, desktop, notebook, browser",
		answers: jsonAnswer(http.StatusOK, "The services.", glovebox.ServiceList{}), fails: noMachine,
	}, {
		method: http.MethodGet, path: "/jobs/{id}/services/{name}/log", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.serviceLog,
		id: "serviceLog", summary: "The end of what a service of a job's machine wrote to its output",
		doc:     "At most 64 KiB, without its secret. A download like the files.",
		answers: []answer{{status: http.StatusOK, doc: "The log.", media: []media{{contentType: "text/plain; charset=utf-8"}}}}, fails: noMachine,
	}, {
		method: http.MethodGet, every: true, anyQuery: true, path: "/jobs/{id}/preview/{port}/{path...}", scope: glovebox.ScopeWrite, link: glovebox.LinkControl, handle: a.preview,
		id: "preview", summary: "What a port of a job's sandbox serves",
		doc: "All methods. A browser is led to where it can see it safely, as by POST /jobs/{id}/places. A program that sends a token, or no sign of a browser, gets the answer itself, HTTP or WebSocket. " +
			"Neither tokens nor cookies of this server reach the sandbox, and no header that acts beyond the page comes from it.",
		answers: []answer{{status: http.StatusOK, doc: "What the port answered, whatever it is."}, {status: http.StatusSeeOther, doc: "To where a browser can see it."}},
		fails:   append([]int{http.StatusMethodNotAllowed, http.StatusBadGateway}, noMachine...),
	}, {
		method: http.MethodGet, path: "/jobs/{id}/notebook", scope: glovebox.ScopeWrite, link: glovebox.LinkControl, handle: a.notebook,
		id: "notebook", summary: "JupyterLab in a job's machine",
		doc:     "It is on an origin of its own, and gets its token from the server. Where the server has no domain for that, this is a 409 that says what to configure.",
		answers: []answer{{status: http.StatusSeeOther, doc: "To JupyterLab."}}, fails: noMachine,
	}, {
		method: http.MethodGet, every: true, anyQuery: true, foreign: true, path: "/preview/{capability}/{path...}", handle: a.bySandboxedPage,
		id: "sandboxedPage", summary: "What a port serves, for pages without an origin",
		doc:     "Addresses of this kind come from POST /jobs/{id}/places and hold for 12 hours. Absolute paths in pages and imports are made relative; paths that scripts put together are not found.",
		answers: []answer{{status: http.StatusOK, doc: "What the port answered, whatever it is."}},
		fails:   append([]int{http.StatusBadGateway}, noMachine...),
	}}
}
