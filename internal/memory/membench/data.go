package membench

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// The files of a data directory.
const (
	locomoFile = "locomo-dev.json"
	trajFile   = "trajectories/multi-swe-bench-dev.jsonl.gz"
)

// DataHint says where the data comes from.
const DataHint = "give the directory with --data or in GLOVEBOX_BENCH_DATA. It holds " + locomoFile + " (conversations of LoCoMo, from " +
	"github.com/snap-research/locomo, in its own JSON) and " + trajFile + " (runs of a coding agent from github.com/multi-swe-bench/experiments, " +
	`one a line: {"run": N, "messages": [{"role": "user"|"assistant", "content": TEXT}, ...]}). Neither comes with Glovebox: their licences don't allow it`

// maxLine bounds a line of the trajectories, in bytes.
const maxLine = 64 << 20

// dialogue is a long conversation of two people, with questions about it.
type dialogue struct {
	turns     []said
	questions []question
}

// said is a turn of a dialogue.
type said struct {
	id   string    // e.g. "D3:12"
	text string    // with the speaker's name
	at   time.Time // when its session began; zero if the data does not say
}

// question is one whose evidence is known.
type question struct {
	text     string
	evidence []int // indexes of turns
	category int
}

// trajectory is a run of a coding agent: messages of the user, each followed
// by an answer.
type trajectory struct {
	Run      int `json:"run"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
}

// missing returns the error for a file of the data that can't be read.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return glovebox.Invalid("data", DataHint, "there is no %s", path)
	}
	return &glovebox.Error{Code: glovebox.CodeInvalid, Field: "data", Msg: "can't read " + path, Hint: DataHint, Err: err}
}

// loadLocomo reads the dialogues. Questions of category 5, which have no
// answer, and those without evidence that names a turn are left out.
func loadLocomo(dir string) ([]dialogue, error) {
	path := filepath.Join(dir, locomoFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, missing(path, err)
	}
	var samples []struct {
		Conversation map[string]json.RawMessage `json:"conversation"`
		QA           []struct {
			Question string   `json:"question"`
			Evidence []string `json:"evidence"`
			Category int      `json:"category"`
		} `json:"qa"`
	}
	if err := json.Unmarshal(raw, &samples); err != nil {
		return nil, glovebox.Invalid("data", DataHint, "%s is not what it should be: %v", path, err)
	}
	var all []dialogue
	for _, s := range samples {
		d, byID, err := readTurns(s.Conversation)
		if err != nil {
			return nil, glovebox.Invalid("data", DataHint, "%s is not what it should be: %v", path, err)
		}
		for _, q := range s.QA {
			evidence := evidenceOf(q.Evidence, byID)
			if q.Category < 1 || q.Category > 4 || len(evidence) == 0 {
				continue
			}
			d.questions = append(d.questions, question{text: q.Question, evidence: evidence, category: q.Category})
		}
		all = append(all, d)
	}
	return all, nil
}

var sessionKey = regexp.MustCompile(`^session_(\d+)$`)

func readTurns(conversation map[string]json.RawMessage) (dialogue, map[string]int, error) {
	var sessions []int
	for k := range conversation {
		if m := sessionKey.FindStringSubmatch(k); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return dialogue{}, nil, err
			}
			sessions = append(sessions, n)
		}
	}
	slices.Sort(sessions)
	var d dialogue
	byID := map[string]int{}
	for _, n := range sessions {
		var turns []struct {
			Speaker string `json:"speaker"`
			ID      string `json:"dia_id"`
			Text    string `json:"text"`
			Caption string `json:"blip_caption"`
		}
		if err := json.Unmarshal(conversation["session_"+strconv.Itoa(n)], &turns); err != nil {
			return dialogue{}, nil, err
		}
		var date string
		if raw := conversation["session_"+strconv.Itoa(n)+"_date_time"]; raw != nil {
			if err := json.Unmarshal(raw, &date); err != nil {
				return dialogue{}, nil, err
			}
		}
		at, _ := time.Parse("3:04 pm on 2 January, 2006", date) // zero if it is none
		for _, t := range turns {
			text := t.Speaker + ": " + t.Text
			if t.Caption != "" {
				text += " [shares a picture: " + t.Caption + "]"
			}
			byID[t.ID] = len(d.turns)
			d.turns = append(d.turns, said{id: t.ID, text: text, at: at})
		}
	}
	return d, byID, nil
}

// evidenceOf returns the turns that the ids name. Some of the data's ids are
// several in one string, and some name nothing.
func evidenceOf(ids []string, byID map[string]int) []int {
	var turns []int
	for _, s := range ids {
		for _, id := range strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == ' ' || r == ',' }) {
			if i, ok := byID[id]; ok && !slices.Contains(turns, i) {
				turns = append(turns, i)
			}
		}
	}
	return turns
}

// loadTrajectories reads the runs. Those that don't alternate between user and
// assistant are an error.
func loadTrajectories(dir string) ([]trajectory, error) {
	path := filepath.Join(dir, trajFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, missing(path, err)
	}
	defer f.Close()
	bad := func(line int, err error) error {
		return glovebox.Invalid("data", DataHint, "line %d of %s is not what it should be: %v", line, path, err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, bad(1, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	var runs []trajectory
	for n := 1; lines.Scan(); n++ {
		var t trajectory
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, bad(n, err)
		}
		for i, m := range t.Messages {
			if want := [2]string{"user", "assistant"}[i%2]; m.Role != want {
				return nil, bad(n, errors.New("message "+strconv.Itoa(i)+" is not the "+want+"'s"))
			}
		}
		if len(t.Messages) >= 2 {
			runs = append(runs, t)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, bad(len(runs)+1, err)
	}
	if len(runs) == 0 {
		return nil, bad(1, errors.New("it holds no run"))
	}
	return runs, nil
}
