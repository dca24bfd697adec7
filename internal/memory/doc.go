// Package memory reads a job's log as a request to the model.
//
// The log is lossless; the request is a pure function of it and of Options:
// the same events and options give the same bytes, whoever builds them, after
// whatever crash. No clock, random number or order of a map is in it.
//
// A request is a head and a conversation. The head, word for word in every
// request, is the standing rules, the standing instructions and the user's
// task. The conversation is the answers of the model exactly as they came,
// each followed by one message of the user that begins with one result for
// each call, in the order of the calls, and ends with what the user and
// Glovebox said since.
//
// Within an epoch the request only grows at its end, so that the provider's
// cache holds. What the log records while the model is being asked is not
// slipped in before the answer, which was given without it, but follows it.
// The one thing that opens a new epoch is a Trimmed event, from which on old
// long results are shown by their first and last lines.
//
// A Builder is brought up to date event by event and belongs to one
// goroutine. The requests that it returns stay valid and must not be changed.
package memory
