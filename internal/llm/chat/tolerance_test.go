package chat

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// TestTolerance plays answers of servers that leave things out or do them in
// their own way.
func TestTolerance(t *testing.T) {
	t.Parallel()
	delta := func(s string) string {
		return `data: {"choices":[{"index":0,"delta":` + s + `,"finish_reason":null}]}` + "\n\n"
	}
	const done = "data: [DONE]\n\n"
	end := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, c := range []struct{ name, stream, want string }{
		{"no reason", delta(`{"content":"hi"}`) + done, "end text:hi"},
		{"no mark", delta(`{"content":"hi"}`) + end, "end text:hi"},
		{"neither", delta(`{"content":"hi"}`), "truncated"},
		{"only the mark", done, "malformed"},
		{"reason stop with calls", delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`) + end, "tool_use a:ls{}"},
		{"all indexes 0", delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"x\":1}"}}]}`) +
			delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"ls","arguments":"{\"x\":2}"}}]}`) + end + done, `tool_use a:ls{"x":1} b:ls{"x":2}`},
		{"indexes 0 and no ids", delta(`{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{}"}},{"index":0,"function":{"name":"pwd","arguments":"{}"}}]}`) + end, "tool_use call_g0_1:ls{} call_g0_2:pwd{}"},
		{"arguments as an object", delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":{"x":1}}}]}`) + end, `tool_use a:ls{"x":1}`},
		{"no arguments", delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls"}}]}`) + end, `tool_use a:ls{}`},
		{"reasoning of vLLM", delta(`{"reasoning":"hm"}`) + delta(`{"content":"hi"}`) + end, "end reasoning:hm text:hi"},
		{"other choices", `data: {"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}` + "\n\n" + delta(`{"content":"hi"}`) + end, "end text:hi"},
		{"error of llama.cpp", delta(`{"content":"hi"}`) + `data: {"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}` + "\n\n", "context_too_long"},
		{"CRLF", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n", "end text:hi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, c.stream)
			}))
			defer s.Close()
			m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100}, BaseURL: s.URL, HTTP: s.Client()})
			resp, err := m.Stream(t.Context(), llmtest.Request(), nil)
			got := string(llmtest.KindOf(err))
			if err == nil {
				got = string(resp.StopReason)
				for _, b := range resp.Message.Blocks {
					if b.Name != "" {
						got += fmt.Sprintf(" %s:%s%s", b.CallID, b.Name, b.Input)
					} else {
						got += fmt.Sprintf(" %s:%s", b.Type, b.Text)
					}
				}
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}
