// Package memory reads a job's log as a request to the model.
//
// The log is lossless; the request is a pure function of it and of Options:
// the same events and options give the same bytes, whoever builds them, after
// whatever crash. No clock, random number or order of a map is in it.
//
// A request is rules and tools, then messages. The first message begins with
// the task, word for word. The conversation that follows is the answers of
// the model exactly as they came, each followed by one message of the user
// that begins with one result for each call, in the order of the calls, and
// ends with what the user and Glovebox said since. What is very long is shown
// by its ends from the start, with the event or handle that has the whole.
//
// Within an epoch the request only grows at its end, so that the provider's
// cache holds. What the log records while the model is being asked is not
// slipped in before the answer, which was given without it, but follows it.
//
// A fold (a Folded event) opens the next epoch. From then on the first message
// has, beside the task, the standing instructions word for word, summaries of
// the events up to the fold's Through, the ledger, the plan and what was
// recalled; then comes what is newer, word for word, without reasoning and
// with few images; and the message that the request ends with restates what
// counts. Each of these has a bound of its own, divided from the high-water
// mark that the log records.
//
// Summaries are the nodes of a tree. A leaf stands for a stretch of events
// between two answers of the model, a node above for eight nodes; at each
// level they follow each other without gap or overlap, and each is made once
// and never changed. The text of a summary is data, whoever wrote it: it is
// checked for length and for being about its source, and every line of it is
// marked as part of a quote.
//
// Who works a job asks, between calls, what is Due; has summaries made for
// Spans, by the model (SummaryRequest, ReadSummaries) or without one
// (DigestSpan); and records the event that Fold returns. Nothing of that
// changes the builder but the events, applied like any others: after a crash
// before a fold is recorded the old epoch goes on, after it the new one does.
//
// A Builder is brought up to date event by event and belongs to one
// goroutine. It keeps the conversation of the epoch, the tree, the ledger and
// the instructions, so that what it takes does not grow with the history. The
// requests that it returns stay valid and must not be changed.
package memory
