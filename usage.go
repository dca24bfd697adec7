package glovebox

// Usage counts the tokens of calls to a model and what they cost. The four
// kinds of input and output do not overlap: the tokens of a request are
// Input + CacheRead + CacheWrite.
type Usage struct {
	Input      int64 `json:"input"`       // read by the model, neither from nor into a cache
	CacheRead  int64 `json:"cache_read"`  // served from the provider's cache
	CacheWrite int64 `json:"cache_write"` // written into the provider's cache
	Output     int64 `json:"output"`      // written by the model, reasoning included
	Reasoning  int64 `json:"reasoning"`   // the part of Output that was reasoning
	CostMicros int64 `json:"cost_micros"` // millionths of a US dollar; 0 for a model without a price
	Calls      int64 `json:"calls"`       // calls that returned an answer
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
		Output:     u.Output + v.Output,
		Reasoning:  u.Reasoning + v.Reasoning,
		CostMicros: u.CostMicros + v.CostMicros,
		Calls:      u.Calls + v.Calls,
	}
}

// Tokens returns all tokens, read and written.
func (u Usage) Tokens() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// CacheShare returns the share of the input that was served from the
// provider's cache, from 0 to 1; 0 if there was no input.
func (u Usage) CacheShare() float64 {
	all := u.Input + u.CacheRead + u.CacheWrite
	if all <= 0 {
		return 0
	}
	return float64(u.CacheRead) / float64(all)
}
