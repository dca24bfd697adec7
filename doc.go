// Package glovebox holds the nouns of Glovebox, a self-hosted service for
// background coding agents: jobs, events, limits, usage, messages and errors.
//
// Everything else (the server, the command line, the client, the guest)
// shares these types, so this package imports only the standard library.
//
// A [Job] is one run of a task. What happens to it is recorded as a gapless,
// append-only sequence of [Event]; the [Job] itself is a reading of that
// sequence, computed by [Job.Apply].
package glovebox
