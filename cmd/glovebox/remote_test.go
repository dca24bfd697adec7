package main

import "testing"

func TestServerWithoutScheme(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"localhost":              "http://localhost",
		"localhost:8000":         "http://localhost:8000",
		"127.0.0.1:8000/prefix":  "http://127.0.0.1:8000/prefix",
		"[::1]:8000":             "http://[::1]:8000",
		"http://localhost:8000":  "http://localhost:8000",
		"https://glovebox.test/": "https://glovebox.test/",
		"glovebox.test:8000":     "glovebox.test:8000", // refused by the client: a token would go in the clear
	} {
		env := func(string) string { return in }
		if got := (remote{}).url(&app{getenv: env}); got != want {
			t.Errorf("%q in the environment: %q, want %q", in, got, want)
		}
		if got := (remote{in}).url(&app{getenv: func(string) string { return "" }}); got != want {
			t.Errorf("%q as a flag: %q, want %q", in, got, want)
		}
	}
}
