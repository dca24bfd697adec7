//go:build !race

package api

const raceEnabled = false // by which everything takes ten times as long
