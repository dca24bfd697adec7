//go:build linux

package ingvisor

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// cellLoop runs 1+1 in a kernel with jupyter_client and prints the
// microseconds until it was idle again and had replied.
const cellLoop = `
import sys, time
from jupyter_client.manager import start_new_kernel
m, c = start_new_kernel(kernel_name="python3")
def cell():
    t = time.perf_counter()
    id = c.execute("1+1")
    while True:
        msg = c.get_iopub_msg(timeout=30)
        if msg["parent_header"].get("msg_id") == id and msg["content"].get("execution_state") == "idle":
            break
    while c.get_shell_msg(timeout=30)["parent_header"].get("msg_id") != id:
        pass
    return time.perf_counter() - t
for _ in range(20):
    cell()
print(*[int(cell() * 1e6) for _ in range(int(sys.argv[1]))])
m.shutdown_kernel(now=True)
`

// BenchmarkCellPeer is BenchmarkCell with jupyter_client, from beside the
// kernel: in the sandbox, in Docker with the same image, and on the host with
// the Python that GLOVEBOX_TEST_PYTHON names.
func BenchmarkCellPeer(b *testing.B) {
	peer := func(name string, f func(b *testing.B, count string) (string, error)) {
		b.Run(name, func(b *testing.B) {
			out, err := f(b, fmt.Sprint(max(b.N, 100)))
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			var took []time.Duration
			for us := range strings.FieldsSeq(out) {
				var n int64
				if _, err := fmt.Sscan(us, &n); err == nil {
					took = append(took, time.Duration(n)*time.Microsecond)
				}
			}
			if len(took) < 100 {
				b.Fatalf("it says %.200q", out)
			}
			report(b, took)
		})
	}
	c := openKernels(b)
	peer("jupyter_client-gvisor", func(b *testing.B, count string) (string, error) {
		return run(b, c, guest.Command{ID: glovebox.NewID(), Args: []string{"/opt/jupyter/bin/python", "-c", cellLoop, count}}), nil
	})
	peer("jupyter_client-docker", func(b *testing.B, count string) (string, error) {
		const image = "glovebox-machine"
		if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
			b.Skip("no peer: no Docker engine with the image " + image)
		}
		out, err := exec.CommandContext(b.Context(), "docker", "run", "--rm", "--entrypoint", "/opt/jupyter/bin/python", image, "-c", cellLoop, count).Output()
		return string(out), err
	})
	peer("jupyter_client-host", func(b *testing.B, count string) (string, error) {
		python := os.Getenv("GLOVEBOX_TEST_PYTHON")
		if python == "" {
			python = "python3"
		}
		if err := exec.Command(python, "-c", "import jupyter_client, ipykernel").Run(); err != nil {
			b.Skipf("no peer: %s has no jupyter_client and ipykernel; name one that has in GLOVEBOX_TEST_PYTHON", python)
		}
		out, err := exec.CommandContext(b.Context(), python, "-c", cellLoop, count).Output()
		return string(out), err
	})
}
