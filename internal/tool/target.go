package tool

import (
	"context"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
)

// aim finds what Target names on the page in front, and makes it the
// coordinate, so that nobody has to guess where it is.
func (d *desk) aim(ctx context.Context) error {
	if d.in.Target == "" {
		return nil
	}
	if len(d.in.Coordinate) > 0 {
		return errGUI(`"target": give it or coordinate, not both`)
	}
	item, problem, err := pageTarget(ctx, d.env, d.in.Target)
	if err != nil {
		return err
	}
	if problem != "" {
		return errGUI(`"target": ` + problem)
	}
	x, y := d.scale.down(item.X, item.Y)
	d.in.Coordinate = []int{x, y}
	return nil
}

// outlined is how an outline names a thing: [role] "name".
var outlined = regexp.MustCompile(`^\[([a-z ]+)\]\s*(.*)$`)

// pageTarget finds what has a name, or a role and a name, on the page in
// front, and scrolls to it if need be. problem is what the model is told if
// there is no such thing, or several.
func pageTarget(ctx context.Context, env *Env, name string) (item browser.Item, problem string, err error) {
	role := ""
	if m := outlined.FindStringSubmatch(name); m != nil {
		role, name = m[1], m[2]
	}
	name = strings.Trim(name, `"`)
	var lookup error
	problem, err = withBrowser(ctx, env, func(b *browser.Browser) error {
		page, err := b.Front(ctx)
		if err != nil {
			lookup = err
			return ctx.Err()
		}
		defer page.Close()
		item, lookup = page.Find(ctx, role, name)
		return ctx.Err()
	})
	switch {
	case err != nil || problem != "":
	case glovebox.CodeOf(lookup) == glovebox.CodeUnavailable:
		problem = "The page in front can't be read: " + plain(lookup)
	case lookup != nil:
		problem = plain(lookup)
	case item.Covered:
		problem = "Something is in front of " + item.String() + ". Look with a screenshot."
	}
	return item, problem, err
}
