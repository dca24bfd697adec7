package glovebox

import (
	"errors"
	"fmt"
	"strings"
)

// Code says what kind of failure an [Error] is. It is translated once at each
// edge: to a status of HTTP by the API, to an exit code by the command line.
type Code string

// The codes.
const (
	CodeInvalid      Code = "invalid"      // the input is wrong; the same input will fail again
	CodeTooLarge     Code = "too_large"    // the input is larger than its bound
	CodeUnauthorized Code = "unauthorized" // no token, or not a valid one
	CodeForbidden    Code = "forbidden"    // a valid token without the needed scope
	CodeNotFound     Code = "not_found"    // no such thing, or it belongs to another tenant
	CodeConflict     Code = "conflict"     // the thing is in a state that does not allow it
	CodeFenced       Code = "fenced"       // the lease was lost: another worker holds the job
	CodeLimit        Code = "limit"        // a limit of the job was reached
	CodeUnavailable  Code = "unavailable"  // it may work later
	CodeInternal     Code = "internal"     // a fault of ours
)

// Error is a failure with what a person needs to act on it.
type Error struct {
	Code  Code
	Op    string // what was attempted, e.g. "create sandbox"; may be empty
	Field string // the input at fault, e.g. "limits.steps"; may be empty
	Value string // the value at fault, at most 100 bytes of it; empty for secrets
	Msg   string // what is wrong, with the value that is wrong
	Hint  string // what to do about it; may be empty
	Err   error  // the cause; may be nil
}

// Error returns operation, field, message, cause and hint on one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Msg)
	if e.Err != nil {
		if e.Msg != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [Error] with a code and a formatted message. A %w verb
// makes the operand its cause, already part of the message.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if cause == nil {
		return &Error{Code: code, Msg: err.Error()}
	}
	return &Error{Code: code, Msg: strings.TrimSuffix(strings.TrimSuffix(err.Error(), cause.Error()), ": "), Err: cause}
}

// Invalid returns a [CodeInvalid] error about one field of an input.
func Invalid(field, hint, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// WithValue sets the value at fault, clipped, and returns e.
func (e *Error) WithValue(v any) *Error {
	e.Value = clip(fmt.Sprint(v), 100)
	return e
}

// CodeOf returns the code of the first [Error] in err's chain, CodeInternal
// if there is none, and the empty code if err is nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
