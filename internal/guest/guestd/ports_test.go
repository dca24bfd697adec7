//go:build linux

package guestd

import "testing"

func TestPortsOfKernels(t *testing.T) {
	t.Parallel()
	const kernel = "/opt/python/bin/python\x00/etc/glovebox/jupyter/python_kernel.py\x00-f\x00/run/x.json\x00"
	for _, c := range []struct {
		port uint32
		line string
		want bool
	}{
		{57230, kernel, true},
		{16000, kernel, true},
		{5000, kernel, false}, // a server that a cell started
		{57230, "python3\x00server.py\x00", false},
		{57230, "", false},
	} {
		if got := ofKernel(c.port, []byte(c.line)); got != c.want {
			t.Errorf("port %d of %q: %v; want %v", c.port, c.line, got, c.want)
		}
	}
}
