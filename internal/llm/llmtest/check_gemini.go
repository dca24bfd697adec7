package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

type (
	geminiRequest struct {
		System   *geminiContent  `json:"systemInstruction"`
		Tools    []geminiTools   `json:"tools"`
		Contents []geminiContent `json:"contents"`
		Config   struct {
			MaxOutput int64 `json:"maxOutputTokens"`
			Thinking  *struct {
				IncludeThoughts bool `json:"includeThoughts"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
	}
	geminiTools struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	}
	geminiContent struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	}
	geminiPart struct {
		Text    *string `json:"text"`
		Thought bool    `json:"thought"`
		Image   *struct {
			MimeType string `json:"mimeType"`
			Data     []byte `json:"data"`
		} `json:"inlineData"`
		Call *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
		Response *struct {
			ID       string            `json:"id"`
			Name     string            `json:"name"`
			Response map[string]string `json:"response"`
		} `json:"functionResponse"`
		Signature []byte `json:"thoughtSignature"`
	}
)

func checkGemini(body []byte) error {
	var q geminiRequest
	if err := strict(body, &q); err != nil {
		return err
	}
	if q.Config.MaxOutput < 1 {
		return errors.New("maxOutputTokens is needed")
	}
	names := tools{}
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			if err := names.add(f.Name, f.Parameters); err != nil {
				return err
			}
		}
	}
	var waiting []string // names and ids of the calls of the last answer, in order
	for i, c := range q.Contents {
		if len(c.Parts) == 0 || (c.Role != "user" && (c.Role != "model" || i == 0)) {
			return fmt.Errorf("contents[%d]: no parts, or the role %q is not possible here", i, c.Role)
		}
		var err error
		if c.Role == "model" {
			if len(waiting) > 0 {
				return fmt.Errorf("contents[%d]: %d calls have no response", i, len(waiting))
			}
			waiting, err = checkModelParts(c.Parts)
		} else {
			waiting, err = checkUserParts(c.Parts, waiting)
		}
		if err != nil {
			return fmt.Errorf("contents[%d]: %w", i, err)
		}
	}
	if n := len(q.Contents); n == 0 || q.Contents[n-1].Role != "user" || len(waiting) > 0 {
		return errors.New("the conversation does not end with the user, or a call has no response")
	}
	return nil
}

// documented is the signature for calls that another model made.
const documented = "skip_thought_signature_validator"

// checkModelParts returns the calls in an answer.
func checkModelParts(parts []geminiPart) (calls []string, err error) {
	for _, p := range parts {
		signature := base64.StdEncoding.EncodeToString(p.Signature)
		raw, err := base64.StdEncoding.DecodeString(sign(Gemini, ""))
		if err != nil {
			return nil, err
		}
		switch {
		case p.Call != nil:
			if !toolName.MatchString(p.Call.Name) || !isObject(p.Call.Args) {
				return nil, fmt.Errorf("the call of %q has no name or no object of arguments", p.Call.Name)
			}
			if len(calls) == 0 && signature != sign(Gemini, p.Call.Name) && string(p.Signature) != documented {
				return nil, fmt.Errorf("function call %q is missing a thought_signature", p.Call.Name)
			}
			if len(calls) > 0 && len(p.Signature) > 0 {
				return nil, errors.New("a signature is on a part that it did not come with")
			}
			calls = append(calls, p.Call.ID+"/"+p.Call.Name)
		case p.Text != nil:
			if len(p.Signature) > 0 && string(p.Signature) != string(raw) {
				return nil, errors.New("thought signature is not valid")
			}
			if len(p.Signature) > 0 && *p.Text != "" {
				return nil, errors.New("a signature is on a part that it did not come with")
			}
			if !visible(*p.Text) && len(p.Signature) == 0 {
				return nil, errors.New("there is text that can't be seen")
			}
		default:
			return nil, errors.New("a part is empty")
		}
	}
	return calls, nil
}

// checkUserParts takes the responses off the calls that wait for one.
func checkUserParts(parts []geminiPart, waiting []string) ([]string, error) {
	for _, p := range parts {
		switch {
		case p.Response != nil:
			if len(waiting) == 0 || waiting[0] != p.Response.ID+"/"+p.Response.Name || len(p.Response.Response) != 1 {
				return nil, fmt.Errorf("the response of %q answers no call", p.Response.Name)
			}
			waiting = waiting[1:]
		case len(waiting) > 0:
			return nil, errors.New("the number of function response parts is not that of the calls")
		case p.Text != nil && visible(*p.Text), p.Image != nil && len(p.Image.Data) > 0 && p.Image.MimeType != "":
		default:
			return nil, errors.New("a part is empty")
		}
	}
	return waiting, nil
}
