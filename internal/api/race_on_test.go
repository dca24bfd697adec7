//go:build race

package api

const raceEnabled = true // by which everything takes ten times as long
