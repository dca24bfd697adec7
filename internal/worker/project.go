package worker

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/project"
)

// projectTimeout is how long a job waits for its project's memory, at its
// start and at its end.
const projectTimeout = 30 * time.Second

// recallProject brings what earlier jobs of the same project noted into the
// log of a job that begins. A job can do without.
func (r *run) recallProject() error {
	job := r.host.state()
	if job.Project == "" || job.Step > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, projectTimeout)
	defer cancel()
	m, err := r.o.Projects.Get(ctx, job.Tenant, job.Project)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound || err == nil && m.Off {
		return nil
	}
	known := false
	if err == nil {
		err = r.eachEvent(ctx, func(e glovebox.Event) { known = known || e.Type == glovebox.EventProject })
	}
	if err != nil {
		r.log.Warn("the job begins without its project's memory", "project", job.Project, "error", err)
		return nil
	}
	files := m.Recall()
	if known || len(files) == 0 {
		return nil
	}
	return r.host.append(r.ctx, glovebox.EventProject, glovebox.ProjectRecalled{Project: job.Project, Files: files})
}

// saveProject adds what a complete job learned to its project's memory. It
// may come to it twice, if the worker dies in between: the second time adds
// nothing. A failure is no matter of the job's.
func (r *run) saveProject() {
	job := r.host.state()
	if job.Project == "" {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, projectTimeout)
	defer cancel()
	var learned project.Lessons
	err := r.eachEvent(ctx, learned.Apply)
	if err == nil && !learned.Empty() {
		now := r.o.Now().UTC()
		_, err = r.o.Projects.Change(ctx, job.Tenant, job.Project, func(m *project.Memory) error {
			if !m.Off {
				learned.AddTo(m, now)
			}
			return nil
		})
	}
	if err != nil && r.ctx.Err() == nil {
		r.log.Warn("what the job learned was not kept for its project", "project", job.Project, "error", err)
	}
}

// eachEvent calls f with every event of the job's log.
func (r *run) eachEvent(ctx context.Context, f func(glovebox.Event)) error {
	return r.pub.each(ctx, 0, func(e glovebox.Event) (bool, error) {
		f(e)
		return true, nil
	})
}
