//go:build !race

package memory

// raceDetector is whether the tests run under the race detector.
const raceDetector = false
