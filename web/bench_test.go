package web

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// firstPaint is what the browser says of a page: when something of it could
// first be seen, in milliseconds from the start of the navigation, and which
// scripts it loaded.
type firstPaint struct {
	Paint   float64  `json:"paint"`
	Scripts []string `json:"scripts"`
}

const readPaint = `new Promise(done => {
	const look = () => {
		const paint = performance.getEntriesByName("first-contentful-paint")[0];
		if (!paint || document.readyState !== "complete") return setTimeout(look, 10);
		const scripts = performance.getEntriesByType("resource").map(e => e.name).filter(n => n.endsWith(".js"));
		done({paint: paint.startTime, scripts});
	};
	look();
})`

// BenchmarkPage opens the page in a headless Chromium, each time as one who
// was never there: until its first paint, and how much JavaScript was sent,
// gzipped. "all" is all there is but for noVNC and xterm.
func BenchmarkPage(b *testing.B) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		b.Skip("chromium is not installed: apt-get install chromium")
	}
	mux := http.NewServeMux()
	mux.Handle("/", Handler(""))
	server := httptest.NewServer(mux)
	defer server.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 800),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-component-update", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		b.Fatal(err)
	}
	var took []float64
	var page firstPaint
	for b.Loop() {
		tab, end := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
		tab, stop := context.WithTimeout(tab, time.Minute)
		if err := chromedp.Do(tab, chromedp.Navigate(server.URL)); err != nil {
			b.Fatal(err)
		}
		if page, err = chromedp.Run(tab, chromedp.Evaluate[firstPaint](readPaint, chromedp.EvalAwaitPromise)); err != nil {
			b.Fatal(err)
		}
		stop()
		end()
		took = append(took, page.Paint)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[len(took)*95/100], "p95-ms")
	b.ReportMetric(0, "ns/op")
	var sent int64
	for _, s := range page.Scripts {
		sent += gzipped(b, s)
	}
	b.ReportMetric(float64(sent)/1024, "KiB-js-first")
	b.ReportMetric(float64(allScripts(b))/1024, "KiB-js-all")
}

// gzipped returns how many bytes are sent for an address.
func gzipped(b *testing.B, url string) int64 {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatal(url, res.Status, err)
	}
	return n
}

// allScripts returns the size of all scripts, but for those of noVNC and xterm.
func allScripts(b *testing.B) (sum int64) {
	b.Helper()
	err := fs.WalkDir(os.DirFS("dist"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".js.gz") || strings.Contains(name, "rfb-") || strings.Contains(name, "xterm") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}
