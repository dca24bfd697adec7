// Package membench measures the memory engine without a model, each figure
// beside those of peers that are simulated in the same run: what the search
// finds, what a provider's cache would have kept of the requests, what they
// would have cost, and how long requests and searches take in histories of up
// to a hundred million tokens.
//
// # Histories
//
// A history is made of recorded runs of a coding agent (see [Load]), laid end
// to end: the first run's task is the job's, each further run comes as a
// message of the user. Histories longer than the data repeat it. Into them go
// planted facts (see facts.go), seeded, so that two runs of a benchmark see
// the same history.
//
// # What is counted
//
// Tokens are [llm.TokensOf], for everyone the same. Costs are in tokens of
// uncached input: an uncached token is 1, one read from the cache 0.1, one
// written to it 1.25, one that the model writes 5.
package membench
