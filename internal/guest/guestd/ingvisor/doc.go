// Package ingvisor holds tests of the guest daemon in a real gVisor sandbox:
// what its kernel does differently from Linux, and the figures that matter
// there. They need an image, see sandboxtest.Image.
package ingvisor
