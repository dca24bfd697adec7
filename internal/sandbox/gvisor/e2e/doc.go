// Package e2e holds tests of gVisor sandboxes with the real guest daemon in
// them. (The driver's own tests put a probe inside.)
package e2e
