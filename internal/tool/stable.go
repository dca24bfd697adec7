package tool

import "regexp"

// passing matches what differs from one run of the same command to the next:
// durations, times of day, ids of processes and handles of outputs.
var passing = regexp.MustCompile(`\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds|m\d+(?:\.\d+)?s)\b` +
	`|\b\d{4}-\d\d-\d\d[T ]?(?:\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)?|\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b` +
	`|\b(?:sh|tty|install|tests)-[0-9a-z]{5}\b|\bhandle "[^"]*"`)

// Stable returns the text of a result without what differs each time: two
// calls that came to the same have the same stable text, although one took
// longer. It is for comparing, not for reading.
func Stable(text string) string { return passing.ReplaceAllString(text, "~") }
