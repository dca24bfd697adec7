//go:build linux

package display

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// keyboard is what the server's keys mean, as far as it was told by us and
// asked at the start.
//
// A character that no key means is bound to one of the keys that mean nothing.
// Programs learn of that by an event and look the meaning up when they get to
// the key: some at once, some much later. So a binding stays, and the key that
// was used the longest ago is bound anew only when there is no other, and not
// before it has rested for a while.
type keyboard struct {
	bySym  map[keysym]stroke
	spare  []spareKey
	column int // keysyms a key
	shift  byte
	of     *conn // whose server was asked
}

// stroke is how a keysym is typed.
type stroke struct {
	code  byte
	shift bool
}

// spareKey is a key that meant nothing at the start.
type spareKey struct {
	code byte
	sym  keysym // 0 if unbound
	used time.Time
}

// keyRest is how long a key keeps its meaning after it was pressed, at least.
const keyRest = time.Second

// bindPause is how long programs get to hear of new meanings before the first
// key comes: not all of them handle both in the order in which they come.
const bindPause = 30 * time.Millisecond

// readKeyboard asks the server what its keys mean. Keys that old has bound
// stay spare.
func (c *conn) readKeyboard(old *keyboard) (*keyboard, error) {
	c.remap = false
	first, n := c.setup.minKey, int(c.setup.maxKey)-int(c.setup.minKey)+1
	head, body, err := c.reply(c.request(101, 0, uint32(first)|uint32(n)<<8), nil) // GetKeyboardMapping
	if err != nil {
		return nil, err
	}
	k := &keyboard{bySym: map[keysym]stroke{}, column: int(head[1])}
	if k.column == 0 || len(body) < 4*k.column*n {
		return nil, errProtocol
	}
	for i := range n {
		code := first + byte(i)
		at := func(col int) keysym {
			if col >= k.column {
				return 0
			}
			return keysym(binary.LittleEndian.Uint32(body[4*(i*k.column+col):]))
		}
		empty := true
		for col := range k.column {
			empty = empty && at(col) == 0
		}
		if sp, ok := old.bound(code); ok && (empty || at(0) == sp.sym) {
			if empty {
				sp.sym = 0
			}
			k.spare = append(k.spare, sp)
			continue
		}
		if empty {
			k.spare = append(k.spare, spareKey{code: code})
			continue
		}
		k.learn(at(0), stroke{code, false})
		switch s := at(0); {
		case at(1) != 0:
			k.learn(at(1), stroke{code, true})
		case s >= 'a' && s <= 'z': // one letter alone stands for both cases
			k.learn(s-'a'+'A', stroke{code, true})
		}
	}
	k.shift = k.bySym[symShift].code
	slices.Reverse(k.spare) // the highest mean least to anyone
	return k, nil
}

// bound returns the spare key with a code.
func (k *keyboard) bound(code byte) (spareKey, bool) {
	if k != nil {
		for _, sp := range k.spare {
			if sp.code == code {
				return sp, true
			}
		}
	}
	return spareKey{}, false
}

func (k *keyboard) learn(s keysym, how stroke) {
	if old, ok := k.bySym[s]; s != 0 && (!ok || old.shift && !how.shift) {
		k.bySym[s] = how
	}
}

// find returns how a keysym is typed now.
func (k *keyboard) find(s keysym) (stroke, bool) {
	if how, ok := k.bySym[s]; ok && (!how.shift || k.shift != 0) {
		return how, true
	}
	for i := range k.spare {
		if k.spare[i].sym == s {
			k.spare[i].used = time.Now()
			return stroke{code: k.spare[i].code}, true
		}
	}
	return stroke{}, false
}

// bind gives keys that mean nothing the meanings of those of syms that no key
// has. It returns how many of syms can be typed now, from the first on, or how
// long to wait before it is called again.
func (k *keyboard) bind(c *conn, syms []keysym) (ready int, wait time.Duration, err error) {
	now := time.Now()
	bound := false
	for i, s := range syms {
		if _, ok := k.find(s); ok {
			continue
		}
		if len(k.spare) == 0 {
			return i, 0, glovebox.Errorf(glovebox.CodeUnavailable, "the keyboard has no key left to type %U with", rune(s&0xffffff))
		}
		oldest := 0
		for j, sp := range k.spare {
			if sp.used.Before(k.spare[oldest].used) {
				oldest = j
			}
		}
		sp := &k.spare[oldest]
		if rest := keyRest - now.Sub(sp.used); rest > 0 && !sp.used.IsZero() {
			switch {
			case bound:
				return 0, bindPause, c.settle()
			case i == 0:
				return 0, rest, nil
			}
			return i, 0, nil
		}
		sp.sym, sp.used = s, now
		meanings := make([]uint32, k.column)
		for col := range meanings {
			meanings[col] = uint32(s)
		}
		c.request(100, 1, append([]uint32{uint32(sp.code) | uint32(k.column)<<8}, meanings...)...) // ChangeKeyboardMapping
		bound = true
	}
	if bound {
		return 0, bindPause, c.settle()
	}
	return len(syms), 0, nil
}

// settle waits until new meanings of keys are in force.
func (c *conn) settle() error {
	err := c.sync()
	c.remap = false // that was us
	return err
}
