// Package project keeps what the jobs of a project learned for its next jobs:
// files of Markdown that a person can read, edit and turn off.
//
// A project's memory is one blob, so that it changes whole or not at all.
// Writers wait for each other, in one process and, where the blob store is a
// [blob.Locker], between processes (a server and a worker of the same data
// directory). With another store a writer looks again right before it writes
// and begins anew if the memory has changed meanwhile; then there remains the
// moment between that look and the writing, in which the later of two may undo
// the earlier.
package project

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

// prefix is that of the blobs of all projects.
const prefix = "projects/"

// maxBlob is more than the largest memory takes as JSON.
const maxBlob = 4 << 20

// writeTries is how often a change is made anew because of another process.
const writeTries = 5

// lockName is the lock of who changes a memory, of any project: a change takes
// milliseconds. lockWait is how long to wait for it, since a process that has
// it may have been stopped.
const (
	lockName = "projects"
	lockWait = 30 * time.Second
)

// Memory is what is kept of a project.
type Memory struct {
	Project   string    `json:"project"`
	Off       bool      `json:"off,omitempty"` // jobs neither read nor write it
	UpdatedAt time.Time `json:"updated_at"`
	Files     []File    `json:"files"` // at most glovebox.MaxProjectFiles, by name
}

// File is a file of a [Memory].
type File struct {
	glovebox.ProjectFile
	UpdatedAt time.Time `json:"updated_at"`
}

// File returns a file by its name, nil if there is none.
func (m *Memory) File(name string) *File {
	for i := range m.Files {
		if m.Files[i].Name == name {
			return &m.Files[i]
		}
	}
	return nil
}

// Set adds or replaces a file. The error says what is wrong with it, or that
// there are too many.
func (m *Memory) Set(f glovebox.ProjectFile, now time.Time) error {
	if err := glovebox.ValidateProjectFile(f); err != nil {
		return err
	}
	if old := m.File(f.Name); old != nil {
		if old.Text != f.Text {
			*old = File{f, now}
		}
		return nil
	}
	if len(m.Files) >= glovebox.MaxProjectFiles {
		return &glovebox.Error{Code: glovebox.CodeConflict, Field: "file", Value: f.Name, Msg: "the project's memory has 8 files already, which is the bound",
			Hint: "remove one, or add to one"}
	}
	m.Files = append(m.Files, File{f, now})
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Remove removes a file. It reports whether it was there.
func (m *Memory) Remove(name string) bool {
	n := len(m.Files)
	m.Files = slices.DeleteFunc(m.Files, func(f File) bool { return f.Name == name })
	return len(m.Files) < n
}

// View is the memory as the API shows it.
func (m *Memory) View() glovebox.ProjectView {
	v := glovebox.ProjectView{Project: m.Project, Memory: !m.Off, UpdatedAt: m.UpdatedAt, Files: []glovebox.ProjectFileView{}}
	for _, f := range m.Files {
		v.Files = append(v.Files, glovebox.ProjectFileView{Name: f.Name, Size: int64(len(f.Text)), UpdatedAt: f.UpdatedAt})
	}
	return v
}

// Store keeps the memories of projects. Its methods may be called from many
// goroutines.
type Store struct {
	blobs blob.Store
	now   func() time.Time
	mu    sync.Mutex // held by who changes a memory
}

// NewStore returns a store in blobs. now is the clock; nil means time.Now.
func NewStore(blobs blob.Store, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{blobs: blobs, now: now}
}

// dir returns the prefix of a project's blobs. Names of tenants and projects
// are segments of keys.
func dir(tenant, project string) string { return prefix + tenant + "/" + project + "/" }

func key(tenant, project string) string { return dir(tenant, project) + "memory.json" }

func checkNames(tenant, project string) error {
	if err := glovebox.ValidateTenant(tenant); err != nil {
		return err
	}
	return glovebox.ValidateProject(project)
}

// Get returns the memory of a tenant's project, CodeNotFound if it has none.
func (s *Store) Get(ctx context.Context, tenant, project string) (*Memory, error) {
	if err := checkNames(tenant, project); err != nil {
		return nil, err
	}
	data, err := s.read(ctx, key(tenant, project))
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, notFound(project)
	}
	return decode(project, data)
}

func notFound(project string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "project", Value: project, Msg: "project " + project + " has no memory",
		Hint: "GET /projects and glovebox project list name those that have one; a job of the project begins one when it is complete"}
}

func decode(project string, data []byte) (*Memory, error) {
	m := &Memory{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "the memory of project %s is damaged: %w", project, err)
	}
	m.Project = project
	return m, nil
}

// read returns a blob, nil if there is none.
func (s *Store) read(ctx context.Context, key string) ([]byte, error) {
	r, err := s.blobs.Open(ctx, key)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxBlob))
}

// Change has f change the memory of a tenant's project, which is made if it
// has none. f may be called several times; if it returns an error, or changes
// nothing, nothing is written.
func (s *Store) Change(ctx context.Context, tenant, project string, f func(*Memory) error) (*Memory, error) {
	if err := checkNames(tenant, project); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for range writeTries {
		m, done, err := s.change(ctx, tenant, project, f)
		if err != nil || done {
			return m, err
		}
	}
	return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "write the project's memory", Msg: "it is being changed by others all the time", Hint: "try again"}
}

// lock keeps other writers out, of all processes where that is possible.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	s.mu.Lock()
	l, ok := s.blobs.(blob.Locker)
	if !ok {
		return s.mu.Unlock, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	release, err := l.Lock(ctx, lockName)
	if err != nil {
		s.mu.Unlock()
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "write the project's memory", Msg: "another process changes a project's memory, and does not end", Err: err, Hint: "try again"}
	}
	return func() {
		release()
		s.mu.Unlock()
	}, nil
}

// change is one try; done is false if another process came in between.
func (s *Store) change(ctx context.Context, tenant, project string, f func(*Memory) error) (_ *Memory, done bool, err error) {
	k := key(tenant, project)
	before, err := s.read(ctx, k)
	if err != nil {
		return nil, false, err
	}
	m := &Memory{Project: project}
	if before != nil {
		if m, err = decode(project, before); err != nil {
			return nil, false, err
		}
	}
	if err := f(m); err != nil {
		return nil, false, err
	}
	if before == nil {
		if err := s.room(ctx, tenant); err != nil {
			return nil, false, err
		}
	}
	same, err := json.Marshal(m)
	if err != nil || bytes.Equal(same, before) {
		return m, err == nil, err
	}
	m.UpdatedAt = s.now().UTC()
	data, err := json.Marshal(m)
	if err != nil {
		return nil, false, err
	}
	now, err := s.read(ctx, k)
	if err != nil || !bytes.Equal(now, before) {
		return nil, false, err
	}
	_, err = s.blobs.Put(ctx, k, bytes.NewReader(data), maxBlob)
	return m, err == nil, err
}

// room returns an error if a tenant has as many memories as are possible.
func (s *Store) room(ctx context.Context, tenant string) error {
	l, ok := s.blobs.(blob.Lister)
	if !ok {
		return nil
	}
	entries, err := l.List(ctx, prefix+tenant+"/")
	if err == nil && len(entries) >= glovebox.MaxProjects {
		err = &glovebox.Error{Code: glovebox.CodeLimit, Field: "project", Msg: "there are 1000 projects with a memory, which is the bound", Hint: "remove those that are not needed: DELETE /projects/NAME"}
	}
	return err
}

// List returns the memories of a tenant's projects, by name.
func (s *Store) List(ctx context.Context, tenant string) ([]*Memory, error) {
	if err := glovebox.ValidateTenant(tenant); err != nil {
		return nil, err
	}
	l, ok := s.blobs.(blob.Lister)
	if !ok {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "this server's blob store can't list projects; name one")
	}
	entries, err := l.List(ctx, prefix+tenant+"/")
	if err != nil {
		return nil, err
	}
	var out []*Memory
	for _, e := range entries {
		m, err := s.Get(ctx, tenant, strings.TrimSuffix(e.Name, "/"))
		switch glovebox.CodeOf(err) {
		case "":
			out = append(out, m)
		case glovebox.CodeNotFound, glovebox.CodeInvalid: // removed meanwhile, or not one
		default:
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *Memory) int { return strings.Compare(a.Project, b.Project) })
	return out, nil
}

// Delete removes the memory of a tenant's project, CodeNotFound if it has none.
func (s *Store) Delete(ctx context.Context, tenant, project string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.Get(ctx, tenant, project); err != nil && glovebox.CodeOf(err) != glovebox.CodeInternal { // a damaged one can be removed
		return err
	}
	return s.blobs.DeletePrefix(ctx, dir(tenant, project))
}
