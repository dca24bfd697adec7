package browser

import (
	"encoding/json"
	"strings"
	"time"
)

// network follows requests.
func (w *watch) network(method string, params json.RawMessage) {
	if w.seen > maxRequests || len(params) > 1<<20 {
		return
	}
	var e struct {
		RequestID string
		LoaderID  string
		FrameID   string
		Type      string
		ErrorText string
		Canceled  bool
		Request   struct{ URL string }
		Response  struct {
			URL    string
			Status int
		}
	}
	if json.Unmarshal(params, &e) != nil || len(e.RequestID) > 200 {
		return
	}
	switch method {
	case "Network.requestWillBeSent":
		if e.Type == "EventSource" || e.Type == "WebSocket" || e.Type == "Ping" { // these may stay open for good
			return
		}
		if w.seen++; w.seen > maxRequests {
			w.problem("the page made more than %d requests; the rest is not looked at", maxRequests)
			w.post("Network.disable", nil)
			clear(w.requests)
			return
		}
		w.requests[e.RequestID] = cut(e.Request.URL, 300)
		return
	case "Network.responseReceived":
		if e.Type == "Document" && len(w.statuses) < 4*maxDocuments && len(e.LoaderID) <= 200 {
			w.statuses[e.LoaderID] = e.Response.Status
		}
		if e.Response.Status >= 400 && e.Type != "Document" && !strings.HasSuffix(e.Response.URL, "/favicon.ico") {
			w.problem("HTTP %d: %s", e.Response.Status, clean(e.Response.URL, 300))
		}
		return
	case "Network.loadingFailed":
		if u, ours := w.requests[e.RequestID]; ours && !e.Canceled && e.Type != "Document" && e.ErrorText != "net::ERR_ABORTED" {
			w.problem("request failed: %s: %s", clean(u, 300), explain(e.ErrorText))
		}
	case "Network.loadingFinished":
	default:
		return
	}
	delete(w.requests, e.RequestID)
	if len(w.requests) == 0 {
		w.idleSince = time.Now()
	}
}

// explain says in words what an error of Chromium's means.
func explain(code string) string {
	code = clean(code, 100)
	words := map[string]string{
		"net::ERR_CONNECTION_REFUSED":          "nothing listens there",
		"net::ERR_CONNECTION_RESET":            "the connection was reset",
		"net::ERR_EMPTY_RESPONSE":              "the server closed the connection without an answer",
		"net::ERR_NAME_NOT_RESOLVED":           "there is no such host",
		"net::ERR_FILE_NOT_FOUND":              "there is no such file",
		"net::ERR_TOO_MANY_REDIRECTS":          "it redirects without end",
		"net::ERR_TUNNEL_CONNECTION_FAILED":    "the egress policy does not allow it, or it can't be reached",
		"net::ERR_PROXY_CONNECTION_FAILED":     "the sandbox has no way out",
		"net::ERR_INVALID_HTTP_RESPONSE":       "what listens there does not speak HTTP",
		"net::ERR_SSL_PROTOCOL_ERROR":          "what listens there does not speak TLS; use http",
		"net::ERR_RESPONSE_HEADERS_TOO_BIG":    "its headers are too long",
		"net::ERR_UNSAFE_PORT":                 "browsers refuse this port; serve on another, e.g. 8000",
		"net::ERR_CONNECTION_TIMED_OUT":        "it did not answer in time",
		"net::ERR_ABORTED":                     "it was given up, as a download or a page without contents is",
		"net::ERR_INCOMPLETE_CHUNKED_ENCODING": "the answer broke off",
		"net::ERR_CONTENT_LENGTH_MISMATCH":     "the answer broke off",
	}
	if text := words[code]; text != "" {
		return text + " (" + code + ")"
	}
	return code
}
