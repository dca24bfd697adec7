// Package tui shows a job to a person at a terminal, as it runs: phases with
// timings, the plan as it is ticked off, tools with their output folded, and
// what it has cost so far.
//
// Everything that comes from a model or a sandbox is cleaned of control
// characters before it is shown: it can't move the cursor, change colours,
// set the title, or write into the clipboard.
package tui
