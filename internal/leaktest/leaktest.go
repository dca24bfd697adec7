// Package leaktest checks that the tests of a package leave no goroutines
// behind. It is goleak with patience: goleak alone takes for a leak what has not
// ended within half a second, and on a busy machine much has not that is ending.
package leaktest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. It is spent where one leaks
// alone.
const patience = time.Minute

// Main runs the tests of a package, which m does, mostly a testing.M, and ends
// the process; with code 1 if all passed and goroutines are left, but for those
// to be ignored.
func Main(m interface{ Run() int }, ignore ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find returns an error that shows the goroutines that are left, but for those
// to be ignored; nil as soon as there are none.
func Find(ignore ...goleak.Option) error {
	for until := time.Now().Add(patience); ; {
		err := goleak.Find(ignore...)
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}
