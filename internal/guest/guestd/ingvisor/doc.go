// Package ingvisor holds tests of the guest daemon in a real gVisor sandbox:
// what its kernel does differently from Linux, and the figures that matter
// there. They need an image, named by GLOVEBOX_TEST_IMAGE.
package ingvisor
