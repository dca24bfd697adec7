// Package api is the HTTP API of Glovebox: jobs, their events as pages and as
// a stream, their files and artifacts.
//
// # How it is built
//
// Every endpoint is one entry of the table in routes.go: method, path, scope,
// handler, and its description for OpenAPI. net/http serves; huma turns the Go
// types of the table into the OpenAPI 3.1 document at /openapi.json. Handlers
// are plain, because most of them are not JSON in, JSON out: a task arrives
// under four content types, events are a stream, artifacts have ranges, and
// every refusal is a problem (RFC 9457) with field, value and remedy.
//
// # What holds for every request
//
//   - Host and Origin are checked before anything else (see origin.go), then
//     the token. A job of another tenant is a 404, like one that is not there.
//   - Bodies are bounded in size (413) and in time (408). Nothing is created
//     by a request that is refused.
//   - 202 is sent after the store has committed.
//   - A reader of events that is slow reads from the log: it loses nothing and
//     slows nobody else (see feed.go).
//
// The package knows the store, the blobs, and, for files of a running job,
// whatever the caller gives it. It knows no worker and no sandbox.
package api
