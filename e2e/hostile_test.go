package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// conversation writes a recorded conversation and returns its model.
func conversation(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conversation.replay")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return "replay:" + file
}

// script is a conversation that runs Bash code, and then finishes with a proof.
func script(code, proof string) string {
	return "turn attack\ncall shell\n  timeout_s := 600\n  command <<END-OF-SCRIPT\n" + code + "\nEND-OF-SCRIPT\n\n" +
		"turn end\ncall finish\n  summary = Done.\n  how_to_run = true\n  proofs := " + proof + "\n"
}

// submit posts a job with a model and limits of its own.
func (s *server) submit(t *testing.T, model, limits string) string {
	t.Helper()
	code, header, answer := s.call(http.MethodPost, "/schedule", "application/json",
		fmt.Sprintf(`{"task":"Do as the recording says.","model":%q,"limits":{%s}}`, model, limits))
	if code != http.StatusAccepted {
		t.Fatalf("POST /schedule: %d %s", code, answer)
	}
	return filepath.Base(header.Get("Location"))
}

// output is what the tools of a job answered, one after the other.
func output(t *testing.T, s *server, id string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range s.events(id) {
		if e.Type == glovebox.EventToolFinished {
			for _, c := range decode[glovebox.ToolFinished](t, e).Content {
				b.WriteString(c.Text + "\n")
			}
		}
	}
	return b.String()
}

const hostSecret = "sk-hostile-test-0123456789"

// TestHostileSandbox runs programs that attack their machine, its guest and
// the host, all on one server, which must stay as it is.
func TestHostileSandbox(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", hostSecret) // the server inherits it
	data := dataDir(t)
	s := serve(t, data, "--concurrency", "3")
	t.Run("attacks", func(t *testing.T) {
		for _, a := range []struct {
			name   string
			attack func(*testing.T, *server)
		}{
			{"escape", attackBoundary}, {"network", attackNetwork}, {"files", attackFiles}, {"processes", attackProcesses}, {"memory", attackMemory}, {"output", attackOutput},
		} {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.attack(t, s)
			})
		}
	})
	s.awaitReady()
	_, _, metrics := s.call(http.MethodGet, "/metrics", "", "")
	if bytes.Contains(metrics, []byte(hostSecret)) || strings.Contains(s.log.String(), hostSecret) {
		t.Error("a secret of the host is in the log or the metrics")
	}
}

// attackBoundary tries what only root inside, or nobody, may do.
func attackBoundary(t *testing.T, s *server) {
	id := s.submit(t, conversation(t, script(`
grep -E 'NoNewPrivs|CapEff' /proc/self/status
id -u
python3 - <<'P'
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def must_fail(name, f):
    try:
        r = f()
        print("BROKEN" if r is None or r >= 0 else "held", name)
    except OSError:
        print("held", name)
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect("/run/glovebox/guest.sock")
must_fail("guest socket", connect)
must_fail("kill the guest", lambda: os.kill(1, 9))
must_fail("trace the guest", lambda: libc.ptrace(16, 1, 0, 0))
must_fail("memory of the guest", lambda: open("/proc/1/mem", "rb").close())
must_fail("environment of the guest", lambda: open("/proc/1/environ", "rb").close())
must_fail("files of the guest", lambda: len(os.listdir("/proc/1/fd")))
must_fail("program of the guest", lambda: open("/.glovebox/glovebox", "r+b").close())
must_fail("place of the guest's socket", lambda: os.rename("/run/glovebox/guest.sock", "/run/glovebox/x"))
must_fail("settings", lambda: open("/etc/glovebox/x", "w").close())
must_fail("host name", lambda: libc.sethostname(b"x", 1))
must_fail("clock", lambda: libc.clock_settime(0, (ctypes.c_long * 2)(1, 1)))
must_fail("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, 0))
must_fail("root", lambda: libc.setuid(0))
must_fail("proxy's port", lambda: socket.socket().bind(("127.0.0.1", 3128)))
# A user namespace gives powers over itself only: not over the limit of processes.
libc.unshare(0x10000000 | 0x20000)
os.makedirs("/tmp/pids", exist_ok=True)
if libc.mount(b"none", b"/tmp/pids", b"cgroup", 0, b"pids") == 0:
    must_fail("limit of processes", lambda: os.write(os.open("/tmp/pids/cgroup.procs", os.O_WRONLY), b"0"))
P
(env; cat /proc/*/environ | tr '\0' '\n'; grep -rIs 'sk-hostile-test' /etc /home /run /tmp /var) 2>/dev/null | grep -c 'sk-hostile-[t]est' | sed 's/^/secrets: /'`,
		`["test -d /workspace"]`)), "")
	st, out := s.finish(id), output(t, s, id)
	if st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "1000\n", "held root", "secrets: 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if strings.Contains(out, "BROKEN") || strings.Count(out, "held ") < 14 || t.Failed() {
		t.Errorf("the output:\n%s", out)
	}
	checkLaws(t, s, id)
}

// attackNetwork looks for a way around the egress policy.
func attackNetwork(t *testing.T, s *server) {
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	id := s.submit(t, conversation(t, script(`
for u in http://127.0.0.1:`+port+`/jobs http://localhost:`+port+`/jobs http://[::1]:`+port+`/jobs http://2130706433:`+port+`/jobs http://0177.1:`+port+`/jobs \
    http://169.254.169.254/latest/meta-data/ http://10.0.0.1/ http://[::ffff:127.0.0.1]:`+port+`/jobs http://glovebox-nowhere.example/; do
  curl -s -m 60 --noproxy '' -o /dev/null -w '%{http_code}\n' "$u" | sed 's/^/proxied /'
done
python3 - <<'P'
import socket
for a in ("1.1.1.1", "169.254.169.254", "10.0.0.1"):
    try:
        socket.create_connection((a, 80), timeout=3); print("BROKEN", a)
    except OSError: print("direct held")
def raw(b):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=60)
    try: s.sendall(b)
    except OSError: pass # it may be refused before it is all there
    try: return s.recv(4096)
    except OSError: return b""
for b in (b"CONNECT 127.0.0.1:`+port+` HTTP/1.1\r\nHost: 127.0.0.1:`+port+`\r\n\r\n",
          b"GET http://npm.glovebox.internal/../../etc/passwd HTTP/1.1\r\nHost: npm.glovebox.internal\r\n\r\n",
          b"GET http://npm.glovebox.internal/x HTTP/1.1\r\nHost: npm.glovebox.internal\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          b"GET http://npm.glovebox.internal/x HTTP/1.1\r\nHost: npm.glovebox.internal\r\nX: " + b"x" * 200000 + b"\r\n\r\n"):
    answer = raw(b)
    print("BROKEN" if b" 200 " in answer[:20] else "raw held", answer[:40])
P`, `["test -d /workspace"]`)), "")
	st, out := s.finish(id), output(t, s, id)
	if st.Status != glovebox.StatusComplete || strings.Contains(out, "BROKEN") || strings.Count(out, "proxied 40") != 9 ||
		strings.Count(out, "direct held") != 3 || strings.Count(out, "raw held") != 4 {
		t.Errorf("got %s, %+v:\n%s", st.Status, st.Error, out)
	}
	if allowed, denied := egress(t, s, id); allowed != 0 || denied == 0 {
		t.Errorf("egress: %d hosts allowed, %d denied; want none and some", allowed, denied)
	}
	checkLaws(t, s, id)
}

// attackFiles leaves a workspace that is no project.
func attackFiles(t *testing.T, s *server) {
	id := s.submit(t, conversation(t, `turn attack
call shell
  command <<END
python3 - <<'P'
import os, socket
def w(name):
    open(name, "wb").write(b"x")
for n in (b"ok.txt", b"new\nline", b"\xff-bad", b"\x1b[31m", b"back\\slash", b"-rf", "\ufffd".encode(), b"OK.txt", b"con"): w(n)
os.symlink("/etc", "etc"); os.symlink("/etc/passwd", "passwd"); os.symlink("self", "self"); os.symlink("..", "up")
os.mkfifo("fifo"); socket.socket(socket.AF_UNIX).bind("sock"); os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 5 << 30)
w("locked"); os.chmod("locked", 0)
os.makedirs(".git/hooks"); w(".git/hooks/pre-commit"); open(".git/config", "w").write("[core]\n fsmonitor = touch /workspace/HOOKED\n")
for i in range(300):
    os.mkdir("deep"); os.chdir("deep")
w("leaf")
P
END

turn look
call list_files
  path = .
call read_file
  path = fifo
call read_file
  path = passwd
call search_files
  pattern = x
call search_files
  pattern = there is no such text

turn end
expect 1 contains ok.txt
expect 2 contains not a regular file
expect 4 contains ok.txt
expect 5 ok
call finish
  summary = Done.
  how_to_run = true
  proofs := ["test -f ok.txt && ! test -e HOOKED"]
`), "")
	st := s.finish(id)
	if st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v\n%s", st, st.Error, output(t, s, id))
	}
	var m glovebox.Manifest
	s.getJSON("/jobs/"+id+"/artifact", &m)
	files := download(t, s, id)
	if files["ok.txt"] != "x" {
		t.Error("what is plain is not in the artifact")
	}
	for name, content := range files {
		if strings.ContainsAny(name, "\\\n\x1b") || strings.Contains(content, "root:") {
			t.Errorf("%q should not be in the artifact", name)
		}
	}
	for _, want := range []string{"etc", "passwd", "self", "up", "fifo", "sock", "sparse", "locked"} {
		if !slices.ContainsFunc(m.Skipped, func(sk glovebox.SkippedPath) bool { return sk.Path == want && sk.Reason != "" }) {
			t.Errorf("the manifest does not say why %s is missing", want)
		}
	}
	checkLaws(t, s, id)
}

// attackProcesses forks without end, ignores signals, and outlives its shell:
// the job can still be cancelled at once.
func attackProcesses(t *testing.T, s *server) {
	id := s.submit(t, conversation(t, `turn bomb
call shell
  timeout_s := 3
  command <<END
trap '' TERM INT HUP
setsid bash -c 'trap "" TERM INT HUP; while true; do sleep 1; done' &
bomb() { bomb | bomb & }; bomb
while true; do sleep 1; done
END

turn again
call shell
  command = sleep 1000
  timeout_s := 600
`), `"processes":100,"memory_bytes":1073741824`)
	s.follow(id, func(e glovebox.Event) bool { return e.Type != glovebox.EventToolFinished })
	begun := time.Now()
	if code, _, body := s.call(http.MethodPost, "/jobs/"+id+"/cancel", "", ""); code != http.StatusAccepted {
		t.Errorf("cancel: %d %s", code, body)
	}
	if st := s.finish(id); st.Status != glovebox.StatusCancelled {
		t.Errorf("got %+v, %+v", st, st.Error)
	}
	if d := time.Since(begun); d > time.Minute { // its call would take ten
		t.Errorf("it took %v to end the job", d)
	}
	checkLaws(t, s, id)
}

// attackMemory takes all memory there is: its machine dies, others do not.
func attackMemory(t *testing.T, s *server) {
	id := s.submit(t, conversation(t, `turn hog
call shell
  command <<END
test -e tried && { echo survived; exit; }
touch tried
python3 -c 'import time
a = []
while True: a.append(bytearray(b"x" * (16 << 20)))'
END
call shell
  command = true

turn end
call finish
  summary = Done.
  how_to_run = true
  proofs := ["test -d /workspace"]
`), `"memory_bytes":268435456,"steps":8`)
	st := s.finish(id)
	lost := 0
	for _, e := range s.events(id) {
		if e.Type == glovebox.EventSandboxLost {
			lost++
			if cause := decode[glovebox.SandboxLost](t, e).Cause; !strings.Contains(cause, "memory") {
				t.Errorf("the machine was lost by %q", cause)
			}
		}
	}
	if lost == 0 || st.Status == glovebox.StatusError && st.Error.Code != "sandbox" {
		t.Errorf("lost %d machines; %+v, %+v", lost, st, st.Error)
	}
	checkLaws(t, s, id)
}

// attackOutput floods, and writes what would command a terminal.
func attackOutput(t *testing.T, s *server) {
	id := s.submit(t, conversation(t, `turn flood
call shell
  command = yes | head -c 200000000; head -c 1000000 /dev/urandom
call shell
  command = printf 'A\033]0;title\007B\033[2JC \302\233 \342\200\256'
  tty := true

turn end
call finish
  summary = Done.
  how_to_run = true
  proofs := ["printf '\\033[2J' && test -d /workspace", "sleep 1000 & test -d /workspace"]
`), "")
	st, out := s.finish(id), output(t, s, id)
	if st.Status != glovebox.StatusComplete || len(out) > 64<<10 {
		t.Errorf("got %s, %+v, and %d bytes of output", st.Status, st.Error, len(out))
	}
	if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x202e }); i >= 0 {
		t.Errorf("the model is shown %q", out[max(0, i-20):min(len(out), i+20)])
	}
	checkLaws(t, s, id)
}
