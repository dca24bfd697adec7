// Package recall finds again what a job once saw. It keeps a search index of
// the job's event log in one SQLite file (FTS5), derived and therefore free to
// be lost: Open begins anew where the file is missing, damaged or another
// job's, and Add reads the log into it.
//
// # What is indexed
//
// What the user said, the agent's answers (text and the inputs of its calls),
// results of tools, notices, plans, questions, standing instructions, what a
// project brought along, the proofs and how the job ended. A result or message
// whose whole is kept outside the log is indexed up to [MaxWhole] bytes of it,
// where [Options].Load is given. Reasoning is not indexed: it belongs to the
// provider, often comes encrypted, and what it led to stands in the answer.
// Summaries are not indexed either: they only repeat what is.
//
// # How it is found
//
// An event's text is cut into passages of about a kilobyte at line ends. A
// passage is a row of the index whose number holds the event's, so that a
// range of events is a range of rows. Words are stemmed; identifiers (paths,
// hashes, codes, names in camelCase and snake_case) are there whole and in
// parts. A search reads the posting lists of its rarest words, only those
// parts of the lists of common words that stand beside a rare one, and scores
// what it found by the rarity of the words that a passage and its neighbours
// cover together, and by how close to each other they stand. Statements that
// answer the same are put newest first, and those that a later one takes back
// are marked. Where an [Embedder] is given, what is near in meaning is joined
// by reciprocal rank fusion.
//
// An [Index] is safe for concurrent use: one Add at a time, and searches
// beside it that see what was complete when they began.
package recall
