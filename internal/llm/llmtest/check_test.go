package llmtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// good are requests that keep all rules, one a provider.
var good = map[API]string{
	Anthropic: `{"model":"m","max_tokens":10,"thinking":{"type":"adaptive","display":"summarized"},
"tools":[` + toolset + `,{"name":"shell","description":"d","input_schema":{"type":"object"}}],
"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"SIGN(hm)"},{"type":"tool_use","id":"c1","name":"shell","input":{}},{"type":"tool_use","id":"c2","name":"shell","input":{}},{"type":"tool_use","id":"NATIVE","name":"left_click","input":{"coordinate":[1,2]},"toolset_name":"computer"}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"NATIVE","is_error":true,"toolset_name":"computer","content":[{"type":"text","text":"x"}]},{"type":"tool_result","tool_use_id":"c1"},{"type":"tool_result","tool_use_id":"c2"},{"type":"text","text":"b"}]}],"stream":true}`,
	OpenAI: `{"model":"m","instructions":"s","tools":[{"type":"computer"},{"type":"function","name":"shell","description":"d","parameters":{"type":"object"},"strict":false}],
"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},
{"type":"reasoning","id":"r1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"SIGN(hm)"},
{"type":"function_call","call_id":"c1","name":"shell","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"shell","arguments":"{}"},
{"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]},
{"type":"computer_call","id":"i","call_id":"NATIVE","actions":[{"type":"move","x":1,"y":2}],"pending_safety_checks":[],"status":"completed"},
{"type":"computer_call_output","call_id":"NATIVE","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,eA=="}}],
"include":["reasoning.encrypted_content"],"max_output_tokens":16,"prompt_cache_key":"k","store":false,"stream":true}`,
	Chat: `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"shell","arguments":"{}"}}]},
{"role":"tool","tool_call_id":"c1","content":"x"}],
"tools":[{"type":"function","function":{"name":"shell","description":"d","parameters":{"type":"object"}}}],"max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`,
	Gemini: `{"systemInstruction":{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"shell","description":"d","parametersJsonSchema":{"type":"object"}}]}],
"contents":[{"role":"user","parts":[{"text":"a"}]},
{"role":"model","parts":[{"functionCall":{"id":"i","name":"shell","args":{}},"thoughtSignature":"SIGN(shell)"},{"functionCall":{"name":"shell","args":{}}}]},
{"role":"user","parts":[{"functionResponse":{"id":"i","name":"shell","response":{"output":"x"}}},{"functionResponse":{"name":"shell","response":{"output":"x"}}}]}],
"generationConfig":{"maxOutputTokens":10,"thinkingConfig":{"includeThoughts":true}}}`,
}

// toolset declares Anthropic's toolset.
const toolset = `{"type":"computer_toolset_20260801"}`

// named replaces what stands for the id of the call of a computer tool.
func named(api API, s string) string {
	id := nativeID("left_click", json.RawMessage(`{"coordinate":[1,2]}`))
	if api == OpenAI {
		id = nativeID("computer", json.RawMessage(`{"actions":[{"type":"move","x":1,"y":2}]}`))
	}
	return strings.ReplaceAll(s, "NATIVE", id)
}

func body(api API) string {
	s := named(api, good[api])
	for _, text := range []string{"hm", "shell"} {
		s = strings.ReplaceAll(s, "SIGN("+text+")", sign(api, text))
	}
	return s
}

// TestCheckRefuses breaks each rule in turn.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		api      API
		old, new string
		want     string
	}{
		{Anthropic, `"stream":true`, `"stream":true,"temperature":1`, "unknown field"},
		{Anthropic, `"stream":true`, `"stream":false`, "stream are needed"},
		{Anthropic, `"adaptive"`, `"enabled"`, "not supported"},
		{Anthropic, sign(Anthropic, "hm"), sign(Anthropic, "other"), "invalid signature"},
		{Anthropic, `"thinking":"hm"`, `"thinking":"hmm"`, "invalid signature"},
		{Anthropic, `"text":"b"`, `"text":" "`, "non-whitespace"},
		{Anthropic, `{"type":"tool_result","tool_use_id":"c2"},`, ``, "has no result"},
		{Anthropic, `"tool_use_id":"c2"`, `"tool_use_id":"c1"`, "answers no call"},
		{Anthropic, `"id":"c2"`, `"id":"c1"`, "is there twice"},
		{Anthropic, `"id":"c2"`, `"id":"c 2"`, "not an id"},
		{Anthropic, `{"type":"tool_result","tool_use_id":"c2"},{"type":"text","text":"b"}`, `{"type":"text","text":"b"},{"type":"tool_result","tool_use_id":"c2"}`, "before other content"},
		{Anthropic, `"name":"shell","input":{}`, `"name":"shell","input":"{}"`, "valid dictionary"},
		{Anthropic, `"input_schema":{"type":"object"}`, `"input_schema":{}`, "not that of an object"},
		{Anthropic, `{"type":"text","text":"a"}`, `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},` + strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 2) + `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`, "5 cache breakpoints"},
		{Anthropic, `"signature":`, `"cache_control":{"type":"ephemeral"},"signature":`, "invalid signature"},
		{Anthropic, `[{"role":"user"`, `[{"role":"assistant"`, "not possible here"},
		{Anthropic, `"stream":true}`, `"tools":[],"stream":true}`, "tools comes too late"},
		{Anthropic, `{"type":"tool_result","tool_use_id":"c1"},`, `{"type":"tool_result","tool_use_id":"c1"}]},{"role":"user","content":[`, "before the end of the message"},
		{Anthropic, toolset, strings.Replace(toolset, `}`, `,"name":"computer"}`, 1), "no name and no display"},
		{Anthropic, toolset, `{"type":"computer_20251124","name":"computer"}`, "size of the display"},
		{Anthropic, toolset, `{"type":"computer_1970"}`, "does not match"},
		{Anthropic, toolset, toolset + "," + toolset, "declared twice"},
		{Anthropic, toolset + ",", ``, "is not declared"},
		{Anthropic, `"input":{"coordinate":[1,2]}`, `"input":{"coordinate":[1,3]}`, "not as it came"},
		{Anthropic, `"toolset_name":"computer"}`, `"toolset_name":"other"}`, "is not declared"},
		{Anthropic, `"toolset_name":"computer","content"`, `"content"`, "not that of the call"},
		{Anthropic, `[{"type":"text","text":"x"}]`, `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}]`, "type `text`"},
		{OpenAI, `{"type":"computer"},`, ``, "no computer tool is declared"},
		{OpenAI, `"x":1`, `"x":2`, "not as it came"},
		{OpenAI, `"pending_safety_checks":[]`, `"pending_safety_checks":[{"id":"sc"}]`, "not acknowledged"},
		{OpenAI, `"actions":`, `"action":{},"actions":`, "lacks its id"},
		{OpenAI, `{"type":"computer_screenshot","image_url":"data:image/png;base64,eA=="}`, `{"type":"computer_screenshot","image_url":""}`, "is no screenshot"},
		{OpenAI, `"type":"computer_call_output","call_id":"NATIVE","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,eA=="}`, `"type":"function_call_output","call_id":"NATIVE","output":"x"`, "not that of a computer_call"},
		{OpenAI, `"store":false`, `"store":true`, "store"},
		{OpenAI, `"prompt_cache_key":"k",`, ``, "prompt_cache_key"},
		{OpenAI, `["reasoning.encrypted_content"]`, `[]`, "without include"},
		{OpenAI, sign(OpenAI, "hm"), "gone", "could not be verified"},
		{OpenAI, `{"type":"function_call","call_id":"c1","name":"shell","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"shell","arguments":"{}"},
{"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]}`,
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`, "required following item"},
		{OpenAI, `{"type":"function_call_output","call_id":"c1","output":"x"},`, `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","call_id":"c1","output":"x"},`, "has no result before a message"},
		{OpenAI, `{"type":"function_call_output","call_id":"c2"`, `{"type":"function_call","call_id":"c3","name":"shell","arguments":"{}"},{"type":"function_call_output","call_id":"c2"`, "has no result before an item"},
		{OpenAI, `"input_text","text":"a"`, `"output_text","text":"a"`, "not possible"},
		{OpenAI, `,{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]}`, ``, "has no result"},
		{Chat, `{"role":"tool","tool_call_id":"c1","content":"x"}`, `{"role":"user","content":"x"}`, "has no result"},
		{Chat, `"arguments":"{}"`, `"arguments":"{"`, "no object"},
		{Chat, `{"role":"user","content":"a"}`, `{"role":"user","content":""}`, "no content"},
		{Gemini, sign(Gemini, "shell"), "", "missing a thought_signature"},
		{Gemini, `,{"functionResponse":{"name":"shell","response":{"output":"x"}}}`, ``, "no response"},
		{Gemini, `{"functionResponse":{"id":"i",`, `{"functionResponse":{"id":"j",`, "answers no call"},
		{Gemini, `{"functionCall":{"name":"shell","args":{}}}`, `{"functionCall":{"name":"shell","args":{}},"thoughtSignature":"eA=="}`, "did not come with"},
	} {
		b := body(c.api)
		if err := Check(c.api, []byte(b)); err != nil || !json.Valid([]byte(b)) {
			t.Fatalf("%s: the good request is refused: %v", c.api, err)
		}
		bad := strings.Replace(b, named(c.api, c.old), named(c.api, c.new), 1)
		if bad == b {
			t.Errorf("%s: %q is not in the request", c.api, c.old)
		}
		if err := Check(c.api, []byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q instead of %q: %v, want %q", c.api, c.new, c.old, err, c.want)
		}
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	more := map[API]string{
		Anthropic: `,{"role":"assistant","content":[{"type":"text","text":"c"}]}],"stream"`,
		OpenAI:    `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]}],"include"`,
		Chat:      `,{"role":"assistant","content":"c"}],"tools"`,
		Gemini:    `,{"role":"model","parts":[{"text":"c"}]}],"generationConfig"`,
	}
	for api, m := range more {
		_, field, _ := strings.Cut(m, "],")
		prev := strings.ReplaceAll(body(api), "\n", "")
		next := strings.Replace(prev, "],"+field, m, 1)
		if prev == next {
			t.Fatalf("%s: nothing grew", api)
		}
		if err := Growth(api, []byte(prev), []byte(next)); err != nil {
			t.Errorf("%s: %v", api, err)
		}
		if err := Growth(api, []byte(next), []byte(prev)); err == nil || !strings.Contains(err.Error(), "shrank") {
			t.Errorf("%s: %v", api, err)
		}
		changed := strings.Replace(next, `"s"`, `"t"`, 1)
		if err := Growth(api, []byte(prev), []byte(changed)); err == nil || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%s: %v", api, err)
		}
	}
	prev := `{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}` + strings.Repeat(`,{"type":"text","text":"b"}`, 16) + `]}]}`
	next := strings.Replace(prev, `,"cache_control":{}`, "", 1)
	far := strings.Replace(next, `"b"}]}`, `"b","cache_control":{}}]}`, 1)
	if err := Growth(Anthropic, []byte(prev), []byte(far)); err == nil || !strings.Contains(err.Error(), "no cache breakpoint") {
		t.Error(err)
	}
	if err := Growth(Anthropic, []byte(prev), []byte(prev)); err != nil {
		t.Error(err)
	}
}
