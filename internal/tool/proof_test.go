package tool

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestProofJSON reads proofs as they have always been, and pages.
func TestProofJSON(t *testing.T) {
	t.Parallel()
	const both = `["npm test",{"page":"http://localhost:1/","start":"npm start","expect":"Todo"},{"page":"file:///workspace/a.html"}]`
	want := []Proof{{Command: "npm test"}, {Page: "http://localhost:1/", Start: "npm start", Expect: "Todo"}, {Page: "file:///workspace/a.html"}}
	var got []Proof
	if err := json.Unmarshal([]byte(both), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if b, err := json.Marshal(got); err != nil || string(b) != both {
		t.Errorf("%s, %v", b, err)
	}
}
