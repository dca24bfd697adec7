package wire

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// maxMessage is how many bytes of a peer's error message are kept.
const maxMessage = 2 << 10

// codes are the failures that may cross the stream, and how Connect calls
// them. What is not in it arrives as CodeInternal.
var codes = []struct {
	code glovebox.Code
	rpc  connect.Code
}{
	{glovebox.CodeInvalid, connect.CodeInvalidArgument},
	{glovebox.CodeTooLarge, connect.CodeOutOfRange},
	{glovebox.CodeForbidden, connect.CodePermissionDenied},
	{glovebox.CodeNotFound, connect.CodeNotFound},
	{glovebox.CodeConflict, connect.CodeAlreadyExists},
	{glovebox.CodeLimit, connect.CodeResourceExhausted},
	{glovebox.CodeUnavailable, connect.CodeUnavailable},
	{glovebox.CodeInternal, connect.CodeInternal},
}

// CodeOf classifies an error: that of a [glovebox.Error], else what a failed
// system call means to the one who asked for it.
func CodeOf(err error) glovebox.Code {
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return glovebox.CodeNotFound
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ETXTBSY):
		return glovebox.CodeConflict
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return glovebox.CodeForbidden
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EAGAIN):
		return glovebox.CodeLimit
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.ENXIO):
		return glovebox.CodeInvalid
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return glovebox.CodeUnavailable
	}
	return glovebox.CodeInternal
}

// FailureOf describes an error to the peer.
func FailureOf(err error) *guestpb.Failure {
	return &guestpb.Failure{Code: string(CodeOf(err)), Message: CleanText(err.Error(), maxMessage)}
}

// ErrorOf is the error that a peer described. Its text is the peer's: bounded
// and made printable, and no more to be trusted than the peer.
func ErrorOf(f *guestpb.Failure) error {
	return &glovebox.Error{Code: knownCode(glovebox.Code(f.GetCode())), Msg: CleanText(f.GetMessage(), maxMessage)}
}

func knownCode(c glovebox.Code) glovebox.Code {
	for _, k := range codes {
		if k.code == c {
			return c
		}
	}
	return glovebox.CodeInternal
}

// ToConnect turns an error of a handler into one that Connect sends.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	code := CodeOf(err)
	for _, k := range codes {
		if k.code == code {
			return connect.NewError(k.rpc, errors.New(CleanText(err.Error(), maxMessage)))
		}
	}
	return connect.NewError(connect.CodeInternal, errors.New(CleanText(err.Error(), maxMessage)))
}

// FromConnect turns the error of a call into a [glovebox.Error]. Anything that
// is not an answer of the peer's handler is CodeUnavailable, except that the
// end of ctx stays what it is.
func FromConnect(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: context.Cause(ctx)}
	}
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: err}
	}
	code := glovebox.CodeUnavailable
	if connect.IsWireError(err) {
		for _, k := range codes {
			if k.rpc == ce.Code() {
				code = k.code
			}
		}
	}
	return &glovebox.Error{Code: code, Op: op, Msg: CleanText(ce.Message(), maxMessage)}
}

// CleanText returns about n bytes of s at most, as valid UTF-8 without control
// characters other than newline and tab: neither those of ASCII and Latin-1 nor
// those that turn the direction of text around, so that it reads as it is.
func CleanText(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "..."
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029, r == utf8.RuneError:
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
