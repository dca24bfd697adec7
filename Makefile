# make demo   installs what is missing, builds everything, runs one real job
# make test   everything there is to test, set-up included
# make bench  the figures of docs/BENCHMARKS.md
# make        builds bin/glovebox

# Without pipefail, what can't be listed would not be tested.
SHELL       := bash
.SHELLFLAGS := -eo pipefail -c

export CGO_ENABLED = 0
LINTER  := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
RETRY   := scripts/retry.sh
GVISOR  := $(shell awk '$$1 == "gvisor.dev/gvisor" { print $$2 }' go.mod)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X gvisor.dev/gvisor/runsc/version.version=$(GVISOR) -X main.version=$(VERSION)

# The steps share files, the machine and the compiler's cache.
.NOTPARALLEL:

.PHONY: build modules demo test test-setup test-dockerfile unit race lint cross e2e bench image setup generate clean web web-check web-deps

# Go asks for each module once, and fails if that fails. So they are there
# before anything is compiled, and only what downloads is tried again.
build:
	@$(RETRY) go list -deps ./cmd/glovebox >/dev/null
	go build -ldflags '$(LDFLAGS)' -o bin/glovebox ./cmd/glovebox

modules:
	@$(RETRY) go list -deps -test ./... >/dev/null
	@CGO_ENABLED=1 $(RETRY) go list -deps -test ./... >/dev/null
	@for os in darwin windows; do GOOS=$$os $(RETRY) go list -deps ./cmd/glovebox >/dev/null; done

setup:
	scripts/setup.sh run

image: build
	$(RETRY) bin/glovebox image build

demo: setup image
	scripts/demo.sh

test: test-setup modules web-check image lint cross unit e2e race

test-setup:
	scripts/setup.sh test

unit:
	packages=$$(go list ./... | grep -v /e2e); go test -timeout 30m $$packages

# By themselves: a browser, a server and a sandbox want the processors that
# other tests would take from them.
e2e:
	go test -p 1 -timeout 30m ./e2e/...

# The whole image by "docker build", which takes ten minutes, downloads and a
# debian:trixie; otherwise the tests finish what "make image" has built.
test-dockerfile:
	GLOVEBOX_E2E_DOCKERFILE=1 go test -timeout 40m -count 1 -v -run TestDockerfile ./e2e/machine

# The race detector needs cgo. The packages that hold gVisor are left out: it
# takes ten minutes to compile with the detector, and its users are tested above.
race:
	packages=$$(go list ./... | grep -v -e gvisor -e /cmd/ -e /e2e); CGO_ENABLED=1 go test -race -timeout 30m $$packages

# Not go vet by itself: it would vet all of gVisor, too. The linter vets ours.
lint:
	@$(RETRY) $(LINTER) version >/dev/null
	$(LINTER) run --allow-parallel-runners ./...

# The command is a client elsewhere, and has to build there.
cross:
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/glovebox
	GOOS=windows GOARCH=amd64 go build -o /dev/null ./cmd/glovebox

bench: image
	scripts/bench.sh

# The page: web/src becomes web/dist, which is committed and embedded, so that
# building the command needs no Node. web-check is for CI: it builds the page
# anew and fails if what is committed is not that.
web: web-deps
	cd web && npm run --silent types && npm run --silent check && npm run --silent build && npm run --silent pack

web-check: web-deps
	cd web && npm run --silent types-check && npm run --silent check && npm test --silent && npm run --silent build && npm run --silent pack -- --check

web-deps:
	cd web && ../$(RETRY) npm ci --no-audit --no-fund

generate:
	go generate ./...

clean:
	rm -rf bin out
