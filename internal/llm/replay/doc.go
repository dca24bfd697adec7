// Package replay plays a written conversation as a language model, so that a
// real job runs with no key and no network, and writes such conversations
// from live ones.
//
// # The file
//
// A file is UTF-8 text. Words at the start of a line give orders; lines that
// are indented are the parameters of the tool call above them. Empty lines
// and lines whose first character that is not a space is # say nothing.
//
//	# A note to whoever reads this.
//	model window=200000 max_output=8000
//
//	turn look around
//	reasoning The workspace should be empty; I check that first.
//	text I will look at what is there.
//	call list_files
//	  path = .
//	call shell
//	  command = node --version
//	  timeout_s := 20
//	usage input=1200 output=60
//
//	turn write the program
//	expect ok
//	expect 2 contains v20
//	call write_file
//	  path = hello.js
//	  content <<END
//	const name = process.argv[2] ?? "world";
//	console.log(`hello, ${name}`);
//	END
//
//	turn end
//	text <<END
//	The program is written.
//
//	It needs nothing but Node.
//	END
//
// A turn is one answer of the model. Its parts come in the order in which
// they are written:
//
//	turn TITLE          begins a turn; the title is for people and may be missing
//	text VALUE          something said
//	reasoning VALUE     something thought
//	call NAME [id=ID]   a call of a tool; several in a turn are parallel calls
//
// and these say something about the turn, in any place within it:
//
//	expect CONDITION    what must be true of what the job answered; see below
//	fail KIND ...       the call of the model fails; see below
//	usage NAME=N ...    the tokens it took: input, cache_read, cache_write,
//	                    output, reasoning; and cost_micros. Estimated if
//	                    missing; see below
//	delay DURATION      how long the answer took, such as 1.5s; see Options.Pace
//	stop REASON         end, tool_use, max_output or refusal; if missing,
//	                    tool_use if there are calls and end if not
//
// # Values
//
// A VALUE is the rest of the line, without the spaces around it, exactly as
// it stands: nothing in it is quoted or escaped. A value of several lines is
// a block, like the here-document of a shell: <<TAG at the end of the line,
// then the lines of the value as they are, then TAG alone on a line (it may
// be indented). A value so written ends with a newline; <<-TAG leaves the
// last newline off. TAG is any word of letters, digits, "_", "-" and "." that
// no line of the value equals.
//
// The parameters of a call are these, each on an indented line:
//
//	name = VALUE        a string of one line
//	name <<TAG          a string of many lines
//	name := JSON        anything else: a number, true, a list, an object
//	name := <<TAG       the same over many lines
//	:= JSON             the whole input at once, kept byte for byte
//	<<TAG               the same over many lines; what is not JSON is given
//	                    as a model's unreadable input would be
//
// A name that has other characters than letters, digits, "_", "-" and "." is
// written as a JSON string. A call without parameters has the input {}.
//
// # Expectations
//
// A recording is played against a real machine, and that may differ from the
// one it was made on. An expectation looks at the results of the tools that
// the turn before called:
//
//	expect ok                     no result is an error
//	expect error                  at least one is
//	expect contains VALUE         at least one has this text in it
//	expect lacks VALUE            none has
//	expect matches EXPRESSION     at least one matches (Go's regexp)
//	expect 2 ok                   the same, of the second result alone
//	expect message contains VALUE the same, of what the user said last
//
// The user's answer to ask_user is the result of that call, not a message.
//
// A VALUE that begins with a double quote is a JSON string. Where an
// expectation does not hold, the call fails with [llm.KindDiverged] and a
// message that names file, line, what was expected and what there was.
//
// # Failures
//
//	fail rate_limited retry_after=1s status=429 message="slow down" times=2
//	fail truncated pieces=3
//
// The kinds are those of [llm.Kind]. Each failure takes one attempt of the
// call (or as many as times says), in the order written; then the answer of
// the turn is given. pieces says how many pieces of the answer are seen
// before it fails. A turn that has failures and no answer goes on failing
// with the last one.
//
// # Whose turn it is
//
// The turn is found from the request alone, so that a job that crashed goes
// on where it was: it is the greater of Request.Step and the number of
// assistant messages in the request. A call whose outcome is unknown, because
// its worker or its sandbox died over it, is made again before the next turn,
// at most five times; such an answer is not a turn. So what is written here
// had better be repeatable. After the last turn a call fails with [llm.KindExhausted].
//
// # Tokens
//
// A turn without a usage line takes as many tokens as its texts would, about,
// in a live model with a cache: what came since the answer before is input,
// all before that is read from the cache, the turn itself is output. Such
// figures are estimates, good for a display and for trying limits out; what a
// recording of a live model says in its usage lines was counted. They cost
// nothing unless the model line names prices.
//
// # The model line
//
// At most one, before the first turn: window, max_output (tokens), images
// (true or false), and the prices input_price, output_price,
// cache_read_price and cache_write_price as in [llm.Info]. A replay costs
// nothing unless it says otherwise here or in a usage line.
package replay
