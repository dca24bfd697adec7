package llmtest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// job is a conversation that a server takes part in.
type job struct {
	*Conversation
	key  string // of the cache, where requests name one
	head string // how it begins
	max  int64  // tokens of the longest request
}

// Tally is what a server has seen.
type Tally struct {
	Jobs     int
	Epochs   int            // of all jobs
	Longest  int64          // tokens of the longest request
	Requests int            // with an answer
	Usage    glovebox.Usage // by a cache that never forgets
}

// Tally returns what the server has seen so far.
func (s *Server) Tally() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := Tally{Jobs: len(s.jobs)}
	for _, j := range s.jobs {
		t.Epochs += j.Epochs()
		t.Longest = max(t.Longest, j.max)
		t.Usage = t.Usage.Add(j.Usage())
	}
	t.Requests = int(t.Usage.Calls)
	return t
}

// errLeft is what becomes of a request whose client left before it was looked
// at. It counts as if it had not been: those that came after it may have
// overtaken it.
var errLeft = errors.New("the client has left")

// answer returns what the server says to a request, or how that is wrong.
func (s *Server) answer(ctx context.Context, model string, body []byte) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return Answer{}, errLeft
	}
	if s.script == nil {
		s.requests = append(s.requests, body)
	}
	if err := Check(s.api, body); err != nil {
		s.skip()
		return Answer{}, err
	}
	sent, err := read(s.api, model, body)
	if err != nil {
		return Answer{}, err
	}
	list, err := pieces(s.api, body)
	if err != nil {
		return Answer{}, err
	}
	for _, p := range list {
		sent.Tokens += p.tokens
	}
	a, err := s.next(sent)
	if err != nil || a.Fault.Kind == Refuse {
		s.bare = strings.Contains(a.Fault.Message, "signature")
		return a, err // a request that is refused is as if it had not been
	}
	if s.window > 0 && sent.Tokens > s.window {
		return Answer{}, fmt.Errorf("prompt is too long: %d tokens > %d maximum", sent.Tokens, s.window)
	}
	j, err := s.job(sent, list)
	if err != nil {
		return Answer{}, err
	}
	j.bare, s.bare = s.bare, false
	u, err := j.request(&heard{model: sent.Model, list: list})
	if err != nil {
		return Answer{}, err
	}
	j.max = max(j.max, sent.Tokens)
	if heardOf(a.Fault.Kind) {
		j.Answered(a)
	}
	if s.script != nil && a.Usage == (glovebox.Usage{}) {
		a.Usage = u
		a.Usage.Output = spoken(a)
	}
	return a, nil
}

// Fold tells that the next request begins an epoch. There is a need to where
// nothing else in it says so: an epoch in which no more is folded than before
// differs from the one before in the reasoning that is left out.
func (s *Server) Fold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare = true
}

// skip leaves out the answer to a request that is wrong.
func (s *Server) skip() {
	if len(s.answers) > 0 {
		s.answers = s.answers[1:]
	}
}

// next returns the next answer.
func (s *Server) next(sent Sent) (Answer, error) {
	if s.script != nil {
		return s.script(sent), nil
	}
	if len(s.answers) == 0 {
		return Answer{}, fmt.Errorf("there is no answer for request %d", len(s.requests))
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a, nil
}

// job returns the job that a request is of: the one with its key, else the one
// that it goes on with, else the newest that begins as it does.
func (s *Server) job(sent Sent, list []piece) (*job, error) {
	var found *job
	head := headOf(sent)
	for _, j := range s.jobs {
		if sent.CacheKey != "" {
			if j.key == sent.CacheKey {
				found = j
			} else if j.continues(list) {
				return nil, fmt.Errorf("%w: %q, and it was %q", errKey, sent.CacheKey, j.key)
			}
		} else if j.head == head && (found == nil || !found.continues(list)) {
			found = j
		}
	}
	if found == nil {
		found = &job{Conversation: NewConversation(s.api), key: sent.CacheKey, head: head}
		s.jobs = append(s.jobs, found)
	}
	return found, nil
}

// headOf returns how a conversation begins: the first two blocks of its first
// message, which are the same in all epochs. Chat has no blocks: there it is
// the first two paragraphs.
func headOf(sent Sent) string {
	if len(sent.Messages) == 0 {
		return ""
	}
	var list []string
	for _, x := range sent.Messages[0].Blocks {
		list = append(list, x.Text)
	}
	if sent.API == Chat {
		list = strings.Split(list[0], "\n\n")
	}
	return strings.Join(list[:min(2, len(list))], "\x00")
}

// heardOf reports whether an answer with that fault comes to its end.
func heardOf(k FaultKind) bool {
	switch k {
	case None, SameIDs, NoIDs, NoUsage, Trickle, BadInput:
		return true
	}
	return false
}

// spoken returns how many tokens an answer has.
func spoken(a Answer) (n int64) {
	for _, b := range a.Blocks {
		n += count(b.Text) + count(string(b.Input)) + 4
	}
	return n
}

// modelIn returns the model that an address names.
func modelIn(p string) string {
	name, _, _ := strings.Cut(path.Base(p), ":")
	return name
}
