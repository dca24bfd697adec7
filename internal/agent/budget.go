package agent

import (
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

const (
	// wantedOutput is how many tokens an answer may have where nothing else
	// bounds it: enough for a large file, too few to waste a lot on.
	wantedOutput = 32_000

	// leastOutput is what an answer needs to be worth asking for: less would
	// be cut in the middle of a call.
	leastOutput = 1024
)

// price is the worst case of one call of the model.
type price struct {
	maxOutput int64 // tokens that the model may write
	tokens    int64 // read and written
	micros    int64 // millionths of a dollar
}

// afford returns what the next call, reading input tokens, may cost at most
// so that no limit is exceeded, or the limit that it would exceed. Limits are
// checked in the order of their fields. The answer is shortened where that
// makes the call fit.
func afford(job *glovebox.Job, info llm.Info, input int64, now time.Time) (price, *glovebox.Failure) {
	limits, used := job.Limits, job.Usage
	info = info.At(input) // a long request may cost more
	out := int64(wantedOutput)
	if info.MaxOutput > 0 {
		out = min(out, info.MaxOutput)
	}
	least := min(leastOutput, out)
	if limits.Steps > 0 && job.Step+1 > limits.Steps {
		return price{}, reached("steps", "The limit of %d steps was reached.", limits.Steps)
	}
	if limits.Tokens > 0 {
		left := limits.Tokens - used.Tokens() - input
		if left < least {
			return price{}, reached("tokens", "The limit of %d tokens was reached: %d were used, and the next call would read about %d and write at least %d.",
				limits.Tokens, used.Tokens(), input, least)
		}
		out = min(out, left)
	}
	if limits.CostMicros > 0 {
		if !info.Priced {
			return price{}, &glovebox.Failure{Code: "limit", Limit: "cost_micros",
				Message: fmt.Sprintf("The price of the model %s is not known, so a limit of money can't be kept.", info.Name),
				Hint:    "run the job without a limit of money (bound it by tokens), set the model's price, or choose a model with one"}
		}
		fits := outputWithin(info, input, limits.CostMicros-used.CostMicros)
		if fits < least {
			return price{}, reached("cost_micros", "The limit of %s was reached: %s were spent, and the next call could cost up to %s.",
				dollars(limits.CostMicros), dollars(used.CostMicros), dollars(worst(info, input, least)))
		}
		out = min(out, fits)
	}
	if limits.WallTimeSeconds > 0 && job.WorkedFor(now) >= time.Duration(limits.WallTimeSeconds)*time.Second {
		return price{}, timeReached(job)
	}
	return price{maxOutput: out, tokens: input + out, micros: worst(info, input, out)}, nil
}

// readPrice is the most that a token of input may cost.
func readPrice(info llm.Info) int64 {
	return max(info.InputPrice, info.CacheReadPrice, info.CacheWritePrice)
}

// worst returns what a call may cost at most, rounded up.
func worst(info llm.Info, input, output int64) int64 {
	if !info.Priced {
		return 0
	}
	info = info.At(input)
	return (input*readPrice(info) + output*info.OutputPrice + 999_999) / 1_000_000
}

// outputWithin returns how many tokens an answer may have so that the call
// costs at most micros; negative if not even its input fits. The prices of
// info are those of a request of that length.
func outputWithin(info llm.Info, input, micros int64) int64 {
	left := micros*1_000_000 - input*readPrice(info)
	if left < 0 {
		return -1
	}
	if info.OutputPrice == 0 {
		return wantedOutput
	}
	return left / info.OutputPrice
}

func timeReached(job *glovebox.Job) *glovebox.Failure {
	return reached("wall_time_seconds", "The limit of %s of work was reached.", time.Duration(job.Limits.WallTimeSeconds)*time.Second)
}

// dollars writes millionths of a dollar, to the cent, or finer below one dollar.
func dollars(micros int64) string {
	if micros < 1_000_000 {
		return fmt.Sprintf("$%.6g", float64(micros)/1e6)
	}
	return fmt.Sprintf("$%.2f", float64(micros)/1e6)
}

func reached(field, format string, args ...any) *glovebox.Failure {
	return &glovebox.Failure{Code: "limit", Limit: field, Message: fmt.Sprintf(format, args...),
		Hint: "raise limits." + field + " and the job goes on from where it stopped"}
}
