package api

import "testing"

func TestLoneSurrogate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		`"a"`: -1, `"\ud83d\ude00"`: -1, `"\\ud83d"`: -1, `"\n\u00e9\u20ac"`: -1, `"\uD83D\uDE00\ud83d\ude00"`: -1,
		`"\ud83d"`: 1, `"\ude00\ud83d"`: 1, `"\ud83d\u0041"`: 1, `"\ud83d\ude00\ud83d"`: 13, `"\\\ude00"`: 3, `"\ud83dx"`: 1,
		`"\ud83d\`: 1, `\u`: -1, `\`: -1, ``: -1,
	} {
		if got := loneSurrogate([]byte(in)); got != want {
			t.Errorf("%s: %d, want %d", in, got, want)
		}
	}
}
