//go:build !linux

package main

import "errors"

func ownTerminal(int) bool { return true }

func unechoed(int) (restore func(), err error) { return nil, errors.ErrUnsupported }
