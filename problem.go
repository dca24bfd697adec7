package glovebox

// Problem is how the API tells an error: RFC 9457, with what a person or a
// program needs to act on it.
type Problem struct {
	Type     string `json:"type" doc:"Always about:blank: code says what it is."`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail" doc:"What is wrong, with the value that is wrong."`
	Code     Code   `json:"code" enum:"invalid,too_large,unauthorized,forbidden,not_found,conflict,fenced,limit,unavailable,internal"`
	Field    string `json:"field,omitempty" doc:"The input at fault."`
	Value    string `json:"value,omitempty" doc:"The value at fault, at most 100 bytes of it."`
	Hint     string `json:"hint,omitempty" doc:"What to do about it."`
	Instance string `json:"instance,omitempty" doc:"Names the occurrence in the server's log."`
}

// Err returns p as an [Error].
func (p *Problem) Err() *Error {
	code := p.Code
	if code == "" {
		code = CodeInternal
	}
	msg := p.Detail
	if msg == "" {
		msg = p.Title
	}
	if p.Instance != "" {
		msg += " [" + p.Instance + "]"
	}
	return &Error{Code: code, Field: p.Field, Value: p.Value, Msg: msg, Hint: p.Hint}
}
