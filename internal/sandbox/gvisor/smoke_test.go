package gvisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	Intercept()
	sandboxtest.Guest()
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	d, err := New(Options{StateDir: t.TempDir(), DefaultImage: os.Getenv("GLOVEBOX_TEST_IMAGE"), DebugLogDir: os.Getenv("DBG")})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		id := sandbox.ID(glovebox.NewID())
		start := time.Now()
		err = d.Create(context.Background(), sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()})
		t.Log("create", time.Since(start))
		if err != nil {
			b, _ := os.ReadFile(d.dir(id) + "/boot.log")
			t.Fatal(err, string(b))
		}
		for range 3 {
			start = time.Now()
			c, err := d.Dial(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintln(c, `{"Op":"exec","Args":["sh","-c","id; ls /; cat /proc/self/cgroup; df -h / /tmp; nproc; free -m; cat /sys/fs/cgroup/pids.max; echo 7 > /sys/fs/cgroup/pids.max; mount"]}`)
			s, err := bufio.NewReader(c).ReadString('\n')
			t.Log(time.Since(start), s, err)
			c.Close()
		}
		l, err := d.List(context.Background())
		t.Log(l, err)
		start = time.Now()
		t.Log(d.Destroy(context.Background(), id), time.Since(start))
	}
	l, err := d.List(context.Background())
	t.Log(l, err)
}
